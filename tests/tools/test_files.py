"""Every call to a file fails or is cut short: tests/shim under the tools.

After each run every file is the old one or the new one, and exit 0 means that all was written. With --all each call
with each error, once and for good; else a sample with one error each.
"""
import errno
import functools
import os

from e2e import GOLDEN, INCOMPARABLE, SIDE, USAGE, case, cases, check, main
from shimmed import Job, calls_of
from sweep import ACTS, ALL, same, sweep, temporaries, undisturbed, whole

ERRORS = [getattr(errno, name) for name in 'EIO ENOSPC EDQUOT EMFILE EACCES EROFS ELOOP EINTR'.split()]
PERSISTENT = [errno.EIO, errno.ENOSPC]
AGAIN = {'read', 'write', 'pread', 'fsync', 'open', 'openat', 'openat2', 'flock'}  # interrupted, they are called again
CLEANING = {'unlink', 'unlinkat', 'rmdir', 'getdents', 'open', 'openat', 'fdopendir', 'close', 'lseek', 'fstat'}


def judge(job, ran):
    act = job.act
    check(job.hit, 'nothing was hit: there were fewer calls than before')
    whole(act, ran)
    check(ran.code >= 0, f'killed by signal {-ran.code}')
    check('Sanitizer' not in ran.err, ran.err)
    name = job.hit[0].split()[0]
    if job.what == 'SHORT' or job.what == errno.EINTR and name in AGAIN and not job.more:
        check(same(act, ran), f'not as undisturbed: exit {ran.code}: {ran.out[-300:]}{ran.err[-300:]}')
    if ran.code == act.code:
        check(same(act, ran), f'exit {ran.code}, but not all is written: {ran.out[-500:]}{ran.err[-300:]}')
    else:
        check(ran.code in (USAGE, GOLDEN, INCOMPARABLE, SIDE), f'exit {ran.code}: {ran.out[-300:]}{ran.err[-300:]}')
        check(os.strerror(job.what) in ran.out + ran.err, f'exit {ran.code}, no word of {os.strerror(job.what)}: '
              f'{ran.out[-300:]}{ran.err[-300:]}')
    removable = not job.more or job.what == 'SHORT'  # where all later calls fail, so do those that would remove it
    check(not temporaries(ran) or name in CLEANING or not removable, f'left behind: {temporaries(ran)}')


def sweep_errors(act):
    undisturbed(act)
    total, calls = calls_of(act)
    jobs = []
    for i, (number, _, line) in enumerate(calls):
        jobs += [Job(act, number, line, e) for e in (ERRORS if ALL else [ERRORS[i % len(ERRORS)]])]
        jobs += [Job(act, number, line, e, '+') for e in (PERSISTENT if ALL else [])]
    print(f'# {act.name}: {total} calls, {sweep(jobs, judge)} runs', flush=True)


@case
def cut_short_everything_is_read_and_written_in_pieces():
    jobs = [Job(act, n, 'all', 'SHORT', '+') for act in ACTS if undisturbed(act) for n in ((1, 2, 7) if ALL else (1,))]
    print(f'# {sweep(jobs, judge)} runs')


for each in ACTS:
    cases.append((f'{each.name} with each file call failing', functools.partial(sweep_errors, each)))
main()
