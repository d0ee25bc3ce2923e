#!/usr/bin/env python3
"""Any program as a side: --a-cmd, --b-cmd."""
import json
import pathlib
import re
import shlex
import sys

from e2e import (BUILD, DIFFERENT, EQUAL, INCOMPARABLE, REFERENCE, ROOT, SIDE, SMALL, case, change_json, change_tensors,
                 check, copy_case, expect, folder, main, read_tensors,
                 refuse)

SELFTEST = 6
TOOL = BUILD / 'tools/ab_compare'


def copying(bundle, *change):
    here = pathlib.Path(__file__).resolve().parent / 'copy_side.py'
    return shlex.join([sys.executable, '-B', str(here), str(bundle), *change])


def first_gradient(bundle):
    return next(iter(read_tensors(REFERENCE / bundle / 'grads.safetensors')))


@case
def recorded_results_as_a_side():
    for name, options in ('p04_llama2', ['--a-cmd', '--b-cmd']), ('p04_simple', ['--a-cmd']), ('t01', ['--b-cmd']):
        for option in options:
            r = expect(EQUAL, REFERENCE / name, option, copying(REFERENCE / name), '--json', '-')
            report = json.loads(r.out)
            counts = report['comparisons'][0]['counts']
            check(counts['right'] and counts['quantities']['weight gradient']['compared'] > 0, f'{name}: {counts}')
            check(option[2:] in {report['comparisons'][0][side] for side in 'ab'}, f'{name}: {report["comparisons"][0]}')
            check(any('not compared' in note for note in report['notes']), f'{name}: {report["notes"]}')


@case
def a_bound_that_nobody_measured_is_not_calibrated():
    expect(INCOMPARABLE, REFERENCE / 'p04_llama2', '--b-cmd', copying(REFERENCE / 'p04_llama2'),
           '--require-calibration', says=['cause: uncalibrated'])


@case
def a_case_without_a_bundle():
    made = folder() / 'made'
    expect(EQUAL, SMALL, '--dump', made)
    expect(EQUAL, SMALL, '--b-cmd', copying(made), says=['EQUAL: linen against b-cmd'])
    expect(EQUAL, SMALL, '--a-cmd', copying(made), '--b-cmd', copying(made), says=['EQUAL: a-cmd against b-cmd'])


@case
def one_value_that_is_off():
    gradient = first_gradient('p04_llama2')
    for option, cause in ('--a-cmd', 'A wrong'), ('--b-cmd', 'B wrong'):
        expect(DIFFERENT, REFERENCE / 'p04_llama2', option,
               copying(REFERENCE / 'p04_llama2', 'grads.safetensors', gradient, '3'),
               says=[f'cause: {cause}', gradient.split('/')[-2], 'first divergence: step 0 layers/0/'])


@case
def one_that_writes_something_else():
    for text, says in [('echo gibberish >$AB_OUT/expected.json', 'expected.json'),
                       ('echo gibberish >$AB_OUT/stream', 'stream'),
                       ('mkdir $AB_OUT/stream', 'stream'), ('mkfifo $AB_OUT/expected.json', 'expected.json'),
                       ('echo "{}" >$AB_OUT/expected.json', "lacks the key 'loss'")]:
        expect(SIDE, REFERENCE / 'p04_llama2', '--b-cmd', text, says=['failed: side b (b-cmd)', says])
    half = copying(REFERENCE / 'p04_llama2') + '; truncate -s 1000 $AB_OUT/grads.safetensors'
    expect(SIDE, REFERENCE / 'p04_llama2', '--b-cmd', half, says=['grads.safetensors'])


@case
def one_that_writes_nothing_or_too_little():
    expect(SIDE, REFERENCE / 'p04_llama2', '--b-cmd', 'true', says=['wrote nothing to $AB_OUT'])
    for missing in 'grads.safetensors', 'outputs.safetensors', 'expected.json':
        command = copying(REFERENCE / 'p04_llama2') + f'; rm $AB_OUT/{missing}'
        expect(SIDE, REFERENCE / 'p04_llama2', '--b-cmd', command, says=[missing])


@case
def one_that_fails():
    for command, says in [('echo no GPU here >&2; exit 9', 'exited with code 9: no GPU here'),
                          ('kill -KILL $$', 'SIGKILL'), ('/no/such/program', 'exited with code 127'),
                          ('sleep 100', 'did not finish in time')]:
        expect(SIDE, SMALL, '--b-cmd', command, '--timeout', '2', says=['side b (', says])
    expect(SIDE, SMALL, '--a-cmd', 'exit 9', says=['side a (a-cmd): exited with code 9'])


@case
def other_names_and_shapes_are_not_comparable():
    def rename(tensors):
        tensors['renamed'] = tensors.pop(next(iter(tensors)))

    def reshape(tensors):
        first = next(iter(tensors.values()))
        first[1] = [1] + first[1]

    for change in rename, reshape:
        bundle = copy_case('p04_llama2')
        change_tensors(bundle / 'grads.safetensors', change)
        expect(INCOMPARABLE, REFERENCE / 'p04_llama2', '--b-cmd', copying(bundle), says=['because: b (b-cmd)'])
    bundle = copy_case('t01')
    change_json(bundle / 'expected.json', lambda e: e['steps'].pop())
    expect(INCOMPARABLE, REFERENCE / 't01', '--b-cmd', copying(bundle), says=['holds 14 steps; expected 15'])


@case
def what_is_left_out_is_named():
    bundle = copy_case('t01')
    (bundle / 'params_final.safetensors').unlink()
    change_json(bundle / 'expected.json', lambda e: [step.pop('grad_norm') for step in e['steps']])
    expect(EQUAL, REFERENCE / 't01', '--b-cmd', copying(bundle), says=['handed over a bundle; not compared: metric (15 of ', 'parameter (', 'activation (',
                                                                       'input (', 'state (', 'counters; metrics not stated: grad_norm'])
    expect(EQUAL, SMALL, '--b-cmd', f'"{TOOL}" --side nnx --side-values $AB_OUT/values $AB_IN 3>$AB_OUT/stream',
           says=['handed over a stream; not compared: ', 'cotangent (all)'])


@case
def a_stream_with_its_values():
    side = f'"{TOOL}" --side nnx --side-values $AB_OUT/values $AB_IN 3>$AB_OUT/stream'
    for target in SMALL, REFERENCE / 'p04_simple':
        expect(EQUAL, target, '--b-cmd', side, says=['handed over a stream'])
        expect(DIFFERENT, target, '--b-cmd', side.replace('$AB_IN', '$AB_IN rope_max_timescale=500000')
               if target is SMALL else copying(target, 'grads.safetensors', first_gradient('p04_simple'), '2'),
               says=['cause: B wrong'])
    expect(SIDE, SMALL, '--b-cmd', side + '; rm $AB_OUT/values', says=['values'])
    expect(SIDE, SMALL, '--b-cmd', side + '; truncate -s 100 $AB_OUT/values', says=['holds 100 bytes'])
    expect(SIDE, SMALL, '--b-cmd', side + '; truncate -s 1000 $AB_OUT/stream', says=['stream'])
    zeros = '; size=$(stat -c %s $AB_OUT/values); rm $AB_OUT/values; truncate -s $size $AB_OUT/values'
    expect(SIDE, SMALL, '--b-cmd', side + zeros, says=['not those whose digest its stream states'])


@case
def a_green_with_a_command_rests_on_controls():
    r = expect(EQUAL, REFERENCE / 't01', '--b-cmd', copying(REFERENCE / 't01'),
               says=['\ncontrols: ', '\nunobserved: n/a (a command', '\nblind to: '])
    caught, run = re.search(r'controls: (\d+) of (\d+) caught', r.out).groups()
    check(caught == run and int(run) >= 15, r.out)
    blinded = BUILD / 'tests/tools/ab_compare_blinded'
    for how in 'equal', 'structure', 'unpinned', 'wide', 'strict', 'metrics':
        expect(SELFTEST, REFERENCE / 't01', '--b-cmd', copying(REFERENCE / 't01'), tool=blinded,
               environment={'AB_BLINDED': how}, says=['SELF-TEST FAILED: ', 'was not caught'])
    expect(DIFFERENT, REFERENCE / 'p04_llama2', '--b-cmd',
           copying(REFERENCE / 'p04_llama2', 'grads.safetensors', first_gradient('p04_llama2'), '3'))


@case
def what_does_not_go_together():
    for more in (['--b', 'nnx'], ['--b-bin', TOOL], ['--b-rev', 'HEAD']):
        refuse(SMALL, '--b-cmd', 'true', *more, says=['one program for side b'])
    for more in (['--dump', folder() / 'x'], ['--teeth', 'full'], ['--check-slope'], ['--save-artifact', folder() / 'x']):
        refuse(SMALL, '--b-cmd', 'true', *more, says=['does not go with --dump', more[0]])
    refuse(SMALL, '--b-cmd', 'true', '--a', 'linen64', says=['different arithmetic'])
    refuse('--suite', ROOT / 'golden/maxtext_pipeline.yml', '--b-cmd', 'true', says=['--a-cmd or --b-cmd'])


main()
