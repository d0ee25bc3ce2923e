#!/usr/bin/env python3
"""The oracles are sides like any other: what is bad about one of them is exit 3 too, and never a verdict."""
from bad_engine import BAD, DAMAGED, DIES, HANGS, HELD, all_caught, bad, caught
from e2e import EQUAL, case, check, main

TOOL = '../tests/sides/ab_compare_bad_oracle'  # beside the tools


def oracle(route):
    return dict(tool=TOOL, ENGINE_ROUTE=route, ENGINE_BIN=str(BAD))


F32, F64 = oracle('sequential'), oracle('sequential64')


@case
def a_faithful_stand_in_is_equal():
    for options in F32, F64:
        r = bad('whole', **options)
        check(r.code == EQUAL, f'exit {r.code}: {r.out[:400]}{r.err[:300]}')


@case
def one_that_dies():
    all_caught(DIES, 'oracle (sequential)', **F32)
    caught('die 11', 'was killed by SIGSEGV', 'truth (sequential64)', **F64)


@case
def one_that_hangs():
    all_caught(HANGS, 'oracle (sequential)', **F32)
    caught('stubborn 50', 'did not finish in time', 'truth (sequential64)', **F64)


@case
def one_that_leaves_a_process_behind():
    caught('hold 50', 'before its end frame', 'oracle (sequential)', **F32)
    caught('hold 100', HELD, 'truth (sequential64)', **F64)


@case
def one_whose_stream_is_damaged():
    all_caught(DAMAGED, 'oracle (sequential)', **F32)
    caught('swap 5', 'the checksum of the frame', 'truth (sequential64)', **F64)


main()
