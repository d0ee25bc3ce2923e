#!/usr/bin/env python3
"""A side that hangs, crashes or is killed: exit 3 with its name and its last observation, and nothing left behind."""
import json
import os
import signal
import time

from e2e import SIDE, SLOWNESS, Run, case, check, main

# Some minutes on any machine, in a few dozen megabytes.
LONG = ['configs/main.yml', 'steps=100000', 'max_target_length=128', 'base_emb_dim=256', 'base_mlp_dim=512']
PATIENCE = 60 * SLOWNESS


def wait_for(run, wanted):
    """The process ids of the sides once `wanted` (their routes so far) is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        check(run.process.poll() is None, f'{run} ended early: {run.process.returncode}')
        sides = run.sides()
        if wanted(list(sides.values())):
            return sides
        time.sleep(0.02)
    raise AssertionError(f'{run}: its sides did not come up in {PATIENCE} s')


def observed(run):
    """Waits until the first side has sent something: its stream is copied into the scratch folder."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if any(p.stat().st_size > 1 << 16 for p in run.scratch.glob('*/*.stream')):
            return
        time.sleep(0.02)
    raise AssertionError(f'{run}: no observation in {PATIENCE} s')


def gone(run):
    end = time.monotonic() + 5 * SLOWNESS
    while run.sides() and time.monotonic() < end:
        time.sleep(0.05)
    check(not run.sides(), f'{run}: sides still run: {run.sides()}')


def failed(run, *texts):
    check(run.code == SIDE, f'{run}: exit {run.code}, expected {SIDE}: {run.out[:300]}{run.err[:300]}')
    for text in texts:
        check(text in run.out, f'{run}: says nothing of "{text}": {run.out[:600]}')
    check('EQUAL' not in run.out, f'{run}: calls it equal: {run.out[:200]}')


@case
def a_side_that_takes_too_long():
    r = Run(*LONG, '--timeout', '1').finish()
    gone(r)
    failed(r, 'a (linen)', 'in time', 'last observation: ')
    check(time.monotonic() - r.started < PATIENCE, 'the time limit was not kept')


def killed_by(number, route='linen', label='a (linen)'):
    r = Run(*LONG, '--a', route, environment={'ASAN_OPTIONS': 'handle_segv=0'})
    sides = wait_for(r, lambda routes: routes == [route])
    observed(r)
    os.kill(next(iter(sides)), number)
    r.finish()
    gone(r)
    failed(r, label, number.name, 'last observation: step 0')


@case
def a_side_that_crashes():
    killed_by(signal.SIGSEGV)


@case
def a_side_that_is_killed_as_for_want_of_memory():
    killed_by(signal.SIGKILL, 'nnx', 'a (nnx)')


@case
def a_failure_stands_in_the_json_report():
    r = Run(*LONG, '--timeout', '1', '--json', '-').finish()
    report = json.loads(r.out)
    check(report['exit_code'] == r.code == SIDE, f'{r}: exit {r.code}, report {report["exit_code"]}')
    check(report['failures'][0]['side'] == 'a (linen)', f'{report["failures"]}')
    check(report['failures'][0]['last'], f'{report["failures"]}')


@case
def one_of_several_sides_that_run_together():
    r = Run('configs/main.yml', 'steps=20', '--json', '-')
    sides = wait_for(r, lambda routes: 'nnx' in routes and len(routes) >= 2)
    os.kill(next(pid for pid, route in sides.items() if route == 'nnx'), signal.SIGSEGV)
    r.finish()
    gone(r)
    report = json.loads(r.out)
    check(r.code == SIDE and len(report['failures']) == 1, f'{r}: exit {r.code}: {report["failures"]}')
    check(report['failures'][0]['side'] == 'b (nnx)', f'{report["failures"]}')


@case
def sides_die_with_the_tool():
    r = Run(*LONG)
    wait_for(r, lambda routes: routes == ['linen'])
    r.process.kill()
    r.process.communicate()
    gone(r)


@case
def interrupting_ends_the_sides():
    for number in (signal.SIGINT, signal.SIGTERM):
        r = Run(*LONG)
        wait_for(r, lambda routes: routes == ['linen'])
        r.process.send_signal(number)
        r.process.communicate(timeout=PATIENCE)
        gone(r)


main()
