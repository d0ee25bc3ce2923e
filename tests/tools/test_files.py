"""Every call to a file fails, is cut short or is the last one: tests/shim under the tools.

After each run every file is the old one or the new one, exit 0 means that all was written, and the next run removes
what a killed one left. With --all each call with each error, once and for good; else a sample with one error each.
"""
import errno
import functools
import os
import re

from e2e import BUILD, GOLDEN, INCOMPARABLE, SIDE, USAGE, case, check, cases, main
from sweep import ACTS, ALL, OWN, WORK, same, sweep, temporaries, undisturbed, whole, Place

SHIM = BUILD / 'tests/shim/shim.so'
ERRORS = [getattr(errno, name) for name in 'EIO ENOSPC EDQUOT EMFILE EACCES EROFS ELOOP EINTR'.split()]
PERSISTENT = [errno.EIO, errno.ENOSPC]
AGAIN = {'read', 'write', 'pread', 'fsync', 'open', 'openat', 'openat2', 'flock'}  # interrupted, they are called again
CHANGING = {'write', 'fsync', 'rename', 'renameat', 'unlink', 'unlinkat', 'mkdir', 'mkdtemp', 'rmdir', 'chmod',
            'fchmod', 'openat'}
CLEANING = {'unlink', 'unlinkat', 'rmdir', 'getdents', 'open', 'openat', 'fdopendir', 'close', 'lseek', 'fstat'}
ALIKE = 6 if ALL else 1  # of calls that do the same to the same file


def shim(order, log):
    return {'LD_PRELOAD': str(SHIM), 'AB_SHIM_LOG': str(log), **({'AB_SHIM': order} if order else {})}


class Job:
    """One run of an act under the shim."""

    def __init__(self, act, number, call, what, more=''):
        self.act, self.number, self.call, self.what, self.more = act, number, call, what, more
        self.order = f'{number}{more}:{what}'

    def __call__(self, place):
        log = place.scratch.parent / f'log-{place.root.name}'
        log.write_text('')
        ran = place.run(self.act, environment=shim(self.order, log))
        self.hit = [line for line in log.read_text().splitlines() if line.endswith(' !')]
        self.after = None
        if self.what in ('KILL', 'DEAD'):
            place.freshen(self.act)
            self.after = place.collect(place.start(self.act))
            place.clear()
        return ran

    def __str__(self):
        return f'AB_SHIM={self.order} {self.act.name} ({self.call})'


def calls_of(act):
    """[(number, name, line)], only the first few of those that do the same to the same."""
    place = Place()
    log = place.scratch.parent / 'calls'
    log.unlink(missing_ok=True)
    place.run(act, environment=shim(None, log))
    seen, chosen = {}, []
    for number, line in enumerate(log.read_text().splitlines(), 1):
        alike = re.sub(re.escape(OWN) + r'[\w-]+', OWN, line)
        seen[alike] = seen.get(alike, 0) + 1
        if seen[alike] <= ALIKE:
            chosen.append((number, line.split()[0], line.replace(str(WORK), '')))
    return number, chosen


def judge(job, ran):
    act = job.act
    check(job.hit, 'nothing was hit: there were fewer calls than before')
    whole(act, ran)
    if job.what in ('KILL', 'DEAD'):
        return judge_killed(job, ran)
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
    check(not temporaries(ran) or name in CLEANING, f'left behind: {temporaries(ran)}')


def judge_killed(job, ran):
    check(ran.code == -9 or same(job.act, ran), f'exit {ran.code}: {ran.out[-300:]}{ran.err[-300:]}')
    after = job.after
    check(after.code == job.act.code, f'the next run: exit {after.code}: {after.out[-300:]}{after.err[-300:]}')
    check(not temporaries(after), f'the next run left {temporaries(after)}')
    whole(job.act, after)


def sweep_errors(act):
    undisturbed(act)
    total, calls = calls_of(act)
    jobs = []
    for i, (number, _, line) in enumerate(calls):
        jobs += [Job(act, number, line, e) for e in (ERRORS if ALL else [ERRORS[i % len(ERRORS)]])]
        jobs += [Job(act, number, line, e, '+') for e in (PERSISTENT if ALL else [])]
    print(f'# {act.name}: {total} calls, {sweep(jobs, judge)} runs', flush=True)


def sweep_deaths(act):
    undisturbed(act)
    _, calls = calls_of(act)
    jobs = [Job(act, number, line, what) for number, name, line in calls if name in CHANGING for what in ('KILL', 'DEAD')]
    print(f'# {act.name}: {sweep(jobs, judge)} runs', flush=True)


@case
def cut_short_everything_is_read_and_written_in_pieces():
    jobs = [Job(act, n, 'all', 'SHORT', '+') for act in ACTS if undisturbed(act) for n in ((1, 2, 7) if ALL else (1,))]
    print(f'# {sweep(jobs, judge)} runs')


for each in ACTS:
    cases.append((f'{each.name} with each file call failing', functools.partial(sweep_errors, each)))
for each in ACTS:
    if each.name not in ('check', 'review'):
        cases.append((f'{each.name} killed at each call that changes something', functools.partial(sweep_deaths, each)))
main()
