"""Every allocation of the door fails: once, and from there on; in each tool, in the parent and in a side.

With --all every allocation, else the first hundred and 25 drawn by a fixed seed.
"""
import functools
import random
import re
import subprocess

from e2e import BUILD, EQUAL, REFERENCE, SIDE, USAGE, check, main, cases
from sweep import ACTS, ALL, BUNDLE, Act, Place, same, sweep, temporaries, undisturbed, whole

FIRST, DRAWN, THROUGH = 100, 25, 6
STRIDE, AROUND = 16, range(-4, 6)
PLANNED = 'cannot allocate what it takes to read how much memory is available'  # what a side does next
BOOK = 1 << 20  # bytes: what its dry run keeps, and nothing before
TAIL = re.compile(r'ab_\w+: (\d+) allocations, (\d+) failed, (\d+) blocks left\n$')
SIDES = [('linen', BUNDLE), ('nnx', BUNDLE), ('sequential64', BUNDLE), ('linen', REFERENCE / 't16')]


def tail(ran):
    found = TAIL.search(ran.err)
    check(found, f'no account of allocations: exit {ran.code}: {ran.err[-300:]}')
    return [int(n) for n in found.groups()]


class Job:
    """A run with AB_FAIL_ALLOC; `run` starts it."""

    def __init__(self, name, run, value):
        self.name, self.run, self.value = name, run, value

    def __call__(self, place):
        return self.run(place, self.value)

    def __str__(self):
        return f'AB_FAIL_ALLOC={self.value} {self.name}'


def jobs_of(name, run):
    """Each chosen allocation twice: once, and all from there on."""
    total = tail(run(Place(), '0'))[0]
    rest = range(FIRST + 1, total + 1)
    chosen = [*range(1, min(FIRST, total) + 1), *random.Random(name).sample(rest, min(DRAWN, len(rest)))]
    return total, [Job(name, run, f'{n}{more}') for n in (range(1, total + 1) if ALL else chosen) for more in ('', '+')]


def check_account(ran):
    _, failed, left = tail(ran)
    check(left == 0, f'{left} blocks are left')
    check(failed, 'nothing failed: there were fewer allocations than before')


def judge_parent(act, _, ran):
    check_account(ran)
    check(not temporaries(ran), f'left behind: {temporaries(ran)}')
    whole(act, ran)
    if not same(act, ran):  # what is only for speed may do without
        check(ran.code == USAGE and 'allocate' in ran.err + ran.out,
              f'exit {ran.code}: {ran.out[-300:]}{ran.err[-300:]}')


def sweep_parent(act):
    undisturbed(act)
    total, jobs = jobs_of(act.name, lambda place, value: place.run(act, environment={'AB_FAIL_ALLOC': value}))
    print(f'# {act.name}: {total} allocations, {sweep(jobs, functools.partial(judge_parent, act))} runs', flush=True)


def run_side(route, bundle, place, value):
    """As the parent would start it, with its stream in a file."""
    place.prepare('good')
    words = [BUILD / 'tools/ab_compare', '--side', route, '--side-values', 'out/values', bundle]
    return place.collect(place.start_words(['sh', '-c', 'exec "$0" "$@" 3>out/stream', *words],
                                           {'AB_FAIL_ALLOC_SIDE': value, 'OPENBLAS_NUM_THREADS': '1',
                                            'OPENBLAS_CORETYPE': 'Haswell'}))


def judge_side(clean, _, ran):
    """A plan that fails is made again with more room: then all is as ever."""
    check_account(ran)
    check(ran.code == SIDE or ran.code == EQUAL and ran.files == clean.files, f'exit {ran.code}: {ran.err[-300:]}')


def sweep_side(route, bundle):
    undisturbed(ACTS[0])
    clean = run_side(route, bundle, Place(), '0')
    total, jobs = jobs_of(f'side {route} of {bundle.name}', functools.partial(run_side, route, bundle))
    print(f'# side {route} of {bundle.name}: {total} allocations, {sweep(jobs, functools.partial(judge_side, clean))} runs', flush=True)


def run_sides(act, place, value):
    return place.run(act, environment={'AB_FAIL_ALLOC_SIDE': value, 'AB_REPLAY': ''})


def end_of_planning(act):
    """The first allocation of a side after its dry run."""
    def said(number):
        return run_sides(act, Place(), f'{number}+').out

    for number in range(1, 100 * STRIDE, STRIDE):
        if PLANNED in said(number):
            break
    while PLANNED in said(number - 1):
        number -= 1
    before = re.search(r'cannot allocate (\d+) bytes', said(number - 1))
    check(before and int(before[1]) > BOOK, f'allocation {number - 1} of a side is none of its dry run')
    return number


def sides_through_their_parent():
    """What a user sees: the side that failed, exit 3, everything as it was."""
    def judge(act, _, ran):
        check(ran.code == SIDE, f'exit {ran.code}: {ran.out}{ran.err}')
        check('allocate' in ran.out or 'memory' in ran.out, ran.out)
        check(not temporaries(ran), f'left behind: {temporaries(ran)}')
        whole(act._replace(words=[]), ran._replace(files={p: d for p, d in ran.files.items()
                                                          if p != 'out/report.json'}))
    runs = 0
    for act in (a for a in ACTS if a.name in ('compare', 'record', 'accept')):
        undisturbed(act)
        numbers = random.Random(act.name).sample(range(20, 240), 100 if ALL else THROUGH)
        jobs = [Job(f'{act.name}, in sides', functools.partial(run_sides, act), f'{n}{more}')
                for n in numbers for more in ('', '+')]
        if act.name == 'compare':
            planned = end_of_planning(act)
            jobs += [Job('compare, planning', functools.partial(run_sides, act), f'{planned + n}+') for n in AROUND]
        runs += sweep(jobs, functools.partial(judge, act))
    print(f'# {runs} runs')


def register(name, function, *arguments):
    cases.append((name, functools.partial(function, *arguments)))


for each in ACTS:
    register(f'when memory fails {each.name} leaves all or nothing', sweep_parent, each)
for each in SIDES:
    register(f'when memory fails side {each[0]} of {each[1].name} says so', sweep_side, *each)
register('a side without memory is the side that failed', sides_through_their_parent)
main()
