"""Every allocation of the door fails: once, and from there on; in each tool, in the parent and in a side.

With --all every allocation, else the first hundred and 25 drawn by a fixed seed.
"""
import random
import re

from e2e import SIDE, USAGE, case, check, main
from sweep import ACTS, ALL, BUNDLE, TOOLS, Act, Place, same, sweep, temporaries, undisturbed, whole

FIRST, DRAWN = 100, 25
TAIL = re.compile(r'ab_\w+: (\d+) allocations, (\d+) failed, (\d+) blocks left\n$')


def tail(ran):
    found = TAIL.search(ran.err)
    check(found, f'no account of allocations: exit {ran.code}: {ran.err[-300:]}')
    return [int(n) for n in found.groups()]


class Job:
    def __init__(self, act, variable, value):
        self.act, self.variable, self.value = act, variable, value

    def __call__(self, place):
        return place.run(self.act, environment={self.variable: self.value})

    def __str__(self):
        return f'{self.variable}={self.value} {self.act.name}'


def chosen(total, seed):
    if ALL:
        return range(1, total + 1)
    rest = range(FIRST + 1, total + 1)
    return [*range(1, min(FIRST, total) + 1), *random.Random(seed).sample(rest, min(DRAWN, len(rest)))]


def jobs_of(act, variable):
    total = tail(Place().run(act, environment={variable: '0'}))[0]
    return total, [Job(act, variable, f'{n}{more}') for n in chosen(total, act.name) for more in ('', '+')]


def judge_parent(job, ran):
    _, failed, left = tail(ran)
    check(left == 0, f'{left} blocks are left')
    check(failed, 'nothing failed: there were fewer allocations than before')
    check(not temporaries(ran), f'left behind: {temporaries(ran)}')
    whole(job.act, ran)
    if not same(job.act, ran._replace(err='')):
        check(ran.code == USAGE and 'allocate' in ran.err, f'exit {ran.code}: {ran.err[-300:]}')


def sweep_parent(act):
    undisturbed(act)
    total, jobs = jobs_of(act, 'AB_FAIL_ALLOC')
    print(f'# {act.name}: {total} allocations, {sweep(jobs, judge_parent)} runs', flush=True)


def register(act):
    @case
    def _():
        sweep_parent(act)
    _.__name__ = f'when memory fails {act.name} leaves all or nothing'
    from e2e import cases
    cases[-1] = (_.__name__, _)


for each in ACTS:
    register(each)

main()
