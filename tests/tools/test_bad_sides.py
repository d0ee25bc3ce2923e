#!/usr/bin/env python3
"""Sides that lie, hang or die: exit 3 with side and cause, in time, and no process left."""
import os
import signal
import subprocess

from bad_engine import (BAD, DAMAGED, DIES, HANGS, HELD, LEFT, PATIENCE, all_caught, bad, caught, ends_with, nobody,
                        time_limit)
from e2e import BUILD, EQUAL, REFERENCE, ROOT, SIDE, SMALL, TOOL, case, check, expect, main

SHIM = BUILD / 'tests/sides/float_shim.so'
B = 'b (nnx@', '--b-bin', BAD
A = 'a (linen@', '--a-bin', BAD
COPY = f'python3 -B {ROOT}/tests/tools/copy_side.py {REFERENCE}/e01_simple'


@case
def a_faithful_stand_in_is_equal_whatever_it_prints():
    for mode in 'whole', 'part 100', 'chat 3':
        r = bad(mode, '--b-bin', BAD)
        check(r.code == EQUAL, f'{mode}: exit {r.code}: {r.out[:400]}{r.err[:300]}')
        check('everything is fine' not in r.out, f'{mode}: the side wrote to our standard output')


@case
def one_that_dies():
    all_caught(DIES, *B)
    caught('die 11', 'was killed by SIGSEGV', *A)


@case
def one_that_hangs():
    all_caught(HANGS, *B)
    caught('stubborn 50', 'did not finish in time', *A)


@case
def one_that_keeps_other_values_than_its_stream_tells_of():
    caught('spoil 4096', 'are not those whose digest its stream states', *A)


@case
def one_that_leaves_a_process_behind():
    all_caught(LEFT, *B)


@case
def what_hides_and_holds_nothing_is_ended_without_a_word():
    check(bad('hide 100', '--b-bin', BAD).code == EQUAL, 'a process in a session of its own')


def command(words, code, *more, **options):
    mark = f'{os.getpid()}-{words}'
    r = expect(code, REFERENCE / 'e01_simple', '--b-cmd', words, *more, environment=dict(BAD_MARK=mark), **options)
    nobody(mark, words)
    return r


@case
def a_command_that_leaves_a_process_behind():
    command(f'sleep 1000 & {COPY}', SIDE, says=[HELD, "'sleep'"])
    command(f'setsid sleep 1000 & {COPY}', SIDE, says=[HELD, "'sleep'"])
    command('setsid sleep 1000 & sleep 1000', SIDE, '--timeout', time_limit(), says=['did not finish in time'])
    command(f'sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 >/dev/null 2>&1 & {COPY}', EQUAL)


@case
def one_whose_stream_is_damaged():
    all_caught(DAMAGED, *B)
    caught('swap 5', 'the checksum of the frame', *A)


def float_mode(mode, when):
    return dict(ENGINE_LOAD=str(SHIM), FLOAT_MODE=mode, FLOAT_WHEN=when, ASAN_OPTIONS='verify_asan_link_order=0')


@case
def a_floating_point_mode_set_before_the_run_is_set_back():
    for mode in 'ftz', 'daz', 'up', 'zero':
        for when in 'load', 'thread':
            r = bad('load', '--b-bin', BAD, **float_mode(mode, when))
            check(r.code == EQUAL, f'{mode} at {when}: exit {r.code}: {r.out[:400]}{r.err[:300]}')


@case
def a_floating_point_mode_set_in_mid_run_is_named():
    for mode, cause in [('ftz', 'mode word has 0x8000 set'), ('daz', 'mode word has 0x40 set'),
                        ('up', 'rounding mode is'), ('down', 'rounding mode is')]:
        caught('load', cause, *B, **float_mode(mode, 'write'))


@case
def when_the_tool_is_killed_every_kind_of_side_ends():
    real = dict(ENGINE_REAL=str(TOOL))
    for number in signal.SIGKILL, signal.SIGTERM:
        ends_with(number, '--side', 1, 'steps=1000')
        ends_with(number, str(BAD), 1, '--a-bin', BAD, ENGINE_BAD='hang 50', **real)
        ends_with(number, str(BAD), 2, '--b-bin', BAD, ENGINE_BAD='hide 50', **real)
        ends_with(number, 'sleep', 3, '--b-cmd', 'sleep 1000 & setsid sleep 1000 & sleep 1000')


@case
def a_side_ends_when_nobody_reads_its_stream():
    ours, theirs = os.pipe()
    os.close(ours)
    command = f'exec "{TOOL}" --side linen "{SMALL}" 3>&{theirs}'
    done = subprocess.run(['/bin/sh', '-c', command], pass_fds=[theirs], timeout=PATIENCE, check=False,
                          capture_output=True)
    os.close(theirs)
    check(done.returncode == SIDE, f'exit {done.returncode}: {done.stderr[:300]}')


main()
