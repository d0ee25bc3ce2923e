#!/usr/bin/env python3
"""Sides that lie, hang or die (tests/sides/engine_bad.c): exit 3 with side and cause, in time, and no process left."""
import os
import pathlib
import signal
import subprocess
import time

from e2e import BUILD, EQUAL, SIDE, SMALL, TOOL, Run, case, check, main

BAD = BUILD / 'tests/sides/engine_bad'
SHIM = BUILD / 'tests/sides/float_shim.so'
TIMEOUT = 3     # seconds that a side gets
PATIENCE = 60   # seconds that the tool may take, on a machine that is busy

# mode: what the report says of the cause
DIES = {
    'die 11': 'was killed by SIGSEGV', 'die 6': 'was killed by SIGABRT', 'die 8': 'was killed by SIGFPE',
    'die 9': 'was killed by SIGKILL', 'leave 7': 'exited with code 7: leaving with 7', 'late 7': 'exited with code 7',
    'part 0': 'ended at byte 0', 'part 50': 'before its end frame',
}
HANGS = {
    'hang 50': 'did not finish in time', 'hang 100': 'did not finish in time', 'spin 50': 'did not finish in time',
    'stubborn 50': 'did not finish in time', 'close 50': 'did not finish in time', 'close 100': 'did not finish in time',
}
LEFT = {
    'hold 50': 'before its end frame',
}
DAMAGED = {
    'garbage': 'stream damaged at byte 0: it is no abpipe stream', 'claim 2048': 'a frame longer than the limit',
    'claim 2': 'a frame longer than the limit', 'huge 1': 'a frame of unknown type', 'huge 0': 'a frame of unknown type',
    'duplicate 2': 'the checksum of the frame', 'drop 3': 'the checksum of the frame', 'swap 5': 'the checksum of the frame',
    'duplicate 0': 'the header is not the first frame', 'drop 0': 'the header is not the first frame',
    'flip 0': 'stream damaged', 'flip 33': 'stream damaged', 'flip 66': 'stream damaged', 'flip 99': 'stream damaged',
    'flip 100': 'stream damaged', 'cut 1': 'before its end frame', 'cut 48': 'before its end frame',
    'on 1': 'after the end', 'twice': 'after the end',
}


def marked(mark):
    """Living processes that carry the mark in their environment."""
    found = []
    for entry in pathlib.Path('/proc').iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f'BAD_MARK={mark}'.encode() in (entry / 'environ').read_bytes().split(b'\0'):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def bad(mode, option='--b-bin', **environment):
    mark = f'{os.getpid()}-{mode}-{option}'
    before = time.monotonic()
    r = Run(SMALL, option, BAD, '--timeout', TIMEOUT,
            environment=dict(ENGINE_BAD=mode, ENGINE_REAL=str(TOOL), BAD_MARK=mark, **environment)).finish()
    check(time.monotonic() - before < PATIENCE, f'{mode}: took {time.monotonic() - before:.0f} s')
    left = marked(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    check(not left, f'{mode}: left {len(left)} processes behind')
    return r


def caught(mode, cause, option='--b-bin', **environment):
    r = bad(mode, option, **environment)
    name = 'b (nnx@' if option == '--b-bin' else 'a (linen@'
    check(r.code == SIDE, f'{mode}: exit {r.code}, expected {SIDE}: {r.out[:300]}{r.err[:300]}')
    check('EQUAL' not in r.out and 'DIFFERENT' not in r.out, f'{mode}: a verdict: {r.out[:300]}')
    check(f'failed: side {name}' in r.out and cause in r.out, f'{mode}: does not say "{cause}": {r.out[:600]}')
    if mode.endswith(' 50') or mode.startswith('die'):
        check('last observation: step ' in r.out, f'{mode}: no last observation: {r.out[:600]}')


def all_caught(table, **options):
    for mode, cause in table.items():
        caught(mode, cause, **options)


@case
def a_faithful_stand_in_is_equal_whatever_it_prints():
    for mode in 'whole', 'part 100', 'chat 3':
        r = bad(mode)
        check(r.code == EQUAL, f'{mode}: exit {r.code}: {r.out[:400]}{r.err[:300]}')
        check('everything is fine' not in r.out, f'{mode}: the side wrote to our standard output')


@case
def one_that_dies():
    all_caught(DIES)
    caught('die 11', 'was killed by SIGSEGV', '--a-bin')


@case
def one_that_hangs():
    all_caught(HANGS)
    caught('stubborn 50', 'did not finish in time', '--a-bin')


@case
def one_that_leaves_a_process_behind():
    all_caught(LEFT)


@case
def one_whose_stream_is_damaged():
    all_caught(DAMAGED)
    caught('swap 5', 'the checksum of the frame', '--a-bin')


def float_mode(mode, when):
    return dict(ENGINE_LOAD=str(SHIM), FLOAT_MODE=mode, FLOAT_WHEN=when, ASAN_OPTIONS='verify_asan_link_order=0')


@case
def a_floating_point_mode_set_before_the_run_is_set_back():
    for mode in 'ftz', 'daz', 'up', 'zero':
        for when in 'load', 'thread':
            r = bad('load', **float_mode(mode, when))
            check(r.code == EQUAL, f'{mode} at {when}: exit {r.code}: {r.out[:400]}{r.err[:300]}')


@case
def a_floating_point_mode_set_in_mid_run_is_named():
    for mode, cause in [('ftz', 'mode word has 0x8000 set'), ('daz', 'mode word has 0x40 set'),
                        ('up', 'rounding mode is'), ('down', 'rounding mode is')]:
        caught('load', cause, **float_mode(mode, 'write'))


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
