"""Every call that changes a file is the last one: tests/shim kills the tool at it.

After each death every file is the old one or the new one, and the next run removes what was left. Of calls that do the
same to the same file it is the first, with --all the first six.
"""
import functools

from e2e import cases, check, main
from shimmed import Job, calls_of
from sweep import ACTS, same, sweep, temporaries, undisturbed, whole

CHANGING = {'write', 'fsync', 'rename', 'renameat', 'unlink', 'unlinkat', 'mkdir', 'mkdtemp', 'rmdir', 'chmod',
            'fchmod', 'openat'}
HOW = 'KILL', 'DEAD'


class Death(Job):
    """And the run after it."""

    def __call__(self, place):
        ran = super().__call__(place)
        place.freshen(self.act)
        self.after = place.collect(place.start(self.act))
        place.clear()
        return ran


def judge(job, ran):
    check(job.hit, 'nothing was hit: there were fewer calls than before')
    whole(job.act, ran)
    check(ran.code == -9 or same(job.act, ran), f'exit {ran.code}: {ran.out[-300:]}{ran.err[-300:]}')
    after = job.after
    check(after.code == job.act.code, f'the next run: exit {after.code}: {after.out[-300:]}{after.err[-300:]}')
    check(not temporaries(after), f'the next run left {temporaries(after)}')
    whole(job.act, after)


def sweep_deaths(act):
    undisturbed(act)
    _, calls = calls_of(act)
    jobs = [Death(act, number, line, how) for number, name, line in calls if name in CHANGING for how in HOW]
    print(f'# {act.name}: {sweep(jobs, judge)} runs', flush=True)


for each in ACTS:
    if each.name not in ('check', 'review'):
        cases.append((f'{each.name} killed at each call that changes something', functools.partial(sweep_deaths, each)))
main()
