#!/usr/bin/env python3
"""What the environment says of threads and of BLAS: the same bytes, or one sentence and a documented code."""
import platform
import re

from e2e import BUILD, EQUAL, REFERENCE, SIDE, SMALL, USAGE, case, check, expect, folder, main, refuse, run

MOST = 1024
NONSENSE = {
    'OMP_NUM_THREADS': ['0', '-1', 'abc', '', '2,', '1e3'],
    'OMP_SCHEDULE': ['nonsense', 'dynamic,0'], 'OMP_DYNAMIC': ['maybe', 'true'], 'OMP_PROC_BIND': ['x', 'true'],
    'OMP_STACKSIZE': ['x', '-1', '1'], 'OMP_THREAD_LIMIT': ['1', '-1'], 'OMP_PLACES': ['x'],
    'OMP_MAX_ACTIVE_LEVELS': ['0'], 'OMP_WAIT_POLICY': ['x'], 'OPENBLAS_NUM_THREADS': ['0', '-1', 'abc', '100000'],
}
NO_THREADS = dict(LD_PRELOAD=str(BUILD / 'tests/shim/shim.so'), AB_SHIM_THREADS='1',
                  ASAN_OPTIONS='verify_asan_link_order=0')
FAILED = 'Thread creation failed', 'unable to allocate necessary resources'  # the words of libgomp and libomp


def fails(r):
    said = r.out + r.err
    return r.code == SIDE and 'side a (linen)' in said and any(words in said for words in FAILED)


@case
def nonsense_changes_no_byte():
    plain = expect(EQUAL, SMALL)
    for name, values in NONSENSE.items():
        for value in values:
            r = expect(EQUAL, SMALL, environment={name: value})
            check(r.out == plain.out, f'{name}={value}: {r.out[:600]}')


@case
def another_core_is_named_and_the_verdict_stands():
    for core in 'Nonsense', '', 'x' * 5000:
        r = expect(EQUAL, SMALL, environment={'OPENBLAS_CORETYPE': core})
        check(re.search(r'BLAS core \w+;', r.out), r.out)
    if platform.machine() == 'x86_64':  # the least of OpenBLAS's cores there
        expect(EQUAL, SMALL, environment={'OPENBLAS_CORETYPE': 'Prescott'}, says=['BLAS core Prescott;'])


@case
def too_many_workers_are_refused():
    for tool in 'ab_compare', 'ab_golden', 'ab_diff':
        expect(EQUAL, '--version', tool=tool, environment={'OMP_NUM_THREADS': str(MOST)})
        for asked in MOST + 1, 100000, 2**31 - 1:
            refuse('--version', tool=tool, environment={'OMP_NUM_THREADS': str(asked)},
                   says=[f'OMP_NUM_THREADS asks for {asked} workers; expected at most {MOST}'])


@case
def stacks_that_cannot_be_are_a_side_that_failed():
    plain = expect(EQUAL, SMALL)
    for size in '16K', '100K', '1M', '100000G':
        r = run(SMALL, environment={'OMP_STACKSIZE': size})
        check(r.out == plain.out or fails(r), f'{size}: exit {r.code}: {r.out[:600]}')


@case
def without_threads_a_side_fails_and_the_tools_go_on():
    r = run(SMALL, environment=NO_THREADS)
    check(fails(r), f'exit {r.code}: {r.out[:600]}')
    bundle = REFERENCE / 'e01_simple'
    made = folder() / 'case'
    r = run('import', bundle, made, tool='ab_golden', environment=NO_THREADS)
    check(fails(r), f'exit {r.code}: {r.out[:600]}{r.err}')
    check(not made.exists(), 'a golden of sides that failed')
    plain, ran = (run(bundle, bundle, tool='ab_diff', environment=e) for e in ({}, NO_THREADS))
    check((ran.code, ran.out) == (plain.code, plain.out), f'exit {ran.code}: {ran.out}{ran.err}')
    expect(EQUAL, SMALL, environment=NO_THREADS | {'OMP_NUM_THREADS': '1'})


main()
