"""Sides that lie, hang or die: what tests/sides/engine_bad.c can do, and what the report has to say of it."""
import concurrent.futures
import functools
import os
import pathlib
import signal
import time

from e2e import BUILD, SIDE, SLOWNESS, SMALL, TOOL, Run, check

BAD = BUILD / 'tests/sides/engine_bad'
PATIENCE = 240 * SLOWNESS  # seconds that the tool may take, on a machine that is busy
AT_ONCE = 3     # runs that mostly wait

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
HELD = 'left a process behind that held its stream'
LEFT = {
    'hold 50': 'before its end frame', 'hold 100': HELD, 'escape 50': 'before its end frame', 'escape 100': HELD,
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


def commands(mark):
    """{process id: words} of the living processes that carry the mark in their environment."""
    found = {}
    for entry in pathlib.Path('/proc').iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if f'BAD_MARK={mark}'.encode() in (entry / 'environ').read_bytes().split(b'\0'):
                found[int(entry.name)] = (entry / 'cmdline').read_bytes().decode().split('\0')
        except OSError:
            continue
    return found


def nobody(mark, what):
    left = commands(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    check(not left, f'{what}: left processes behind: {left}')


def ends_with(number, word, count, *words, **environment):
    """When the tool gets the signal, at a moment at which `count` processes have the word in their command line."""
    mark = f'{os.getpid()}-{number}-{words}'
    r = Run(SMALL, *words, environment=dict(BAD_MARK=mark, **environment))
    before = time.monotonic()
    while sum(word in said for said in commands(mark).values()) < count:
        if r.process.poll() is not None or time.monotonic() - before > PATIENCE:
            nobody(mark, f'{r}: there is no {word}')
            raise AssertionError(f'{r}: ended before there was a {word}')
        time.sleep(0.01)
    r.process.send_signal(number)
    r.process.communicate()
    while commands(mark) and time.monotonic() - before < PATIENCE:
        time.sleep(0.05)
    nobody(mark, f'{r} after {number.name}')


@functools.cache
def time_limit():
    """For a side that would never end: seconds in which honest ones end on this machine, as busy as it is."""
    before = time.monotonic()
    Run(SMALL).finish()
    return int(3 + 4 * (time.monotonic() - before))


def bad(mode, *words, tool='ab_compare', **environment):
    mark = f'{os.getpid()}-{mode}-{words}'
    before = time.monotonic()
    limit = ['--timeout', time_limit()] if mode in HANGS else []
    r = Run(SMALL, *words, *limit, tool=tool,
            environment=dict(ENGINE_BAD=mode, ENGINE_REAL=str(TOOL), BAD_MARK=mark, **environment)).finish()
    check(time.monotonic() - before < PATIENCE, f'{mode}: took {time.monotonic() - before:.0f} s')
    nobody(mark, mode)
    return r


def caught(mode, cause, name, *words, **options):
    """Exit 3 with the side's name and the cause, and no verdict."""
    r = bad(mode, *words, **options)
    check(r.code == SIDE, f'{mode}: exit {r.code}, expected {SIDE}: {r.out[:300]}{r.err[:300]}')
    check('EQUAL' not in r.out and 'DIFFERENT' not in r.out, f'{mode}: a verdict: {r.out[:300]}')
    check(f'failed: side {name}' in r.out and cause in r.out, f'{mode}: does not say "{cause}": {r.out[:600]}')
    if mode.endswith(' 50') or mode.startswith('die'):
        check('last observation: step ' in r.out, f'{mode}: no last observation: {r.out[:600]}')


def all_caught(table, *arguments, **options):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE if table in (HANGS, LEFT) else 1) as pool:
        for done in [pool.submit(caught, mode, cause, *arguments, **options) for mode, cause in table.items()]:
            done.result()
