#!/usr/bin/env python3
"""One cause: what a whole run folds its comparisons into, and why."""
import json
import pathlib
import shlex
import sys

from e2e import (DIFFERENT, EQUAL, INCOMPARABLE, REFERENCE, SMALL, TOOL, build, case, check, expect, folder, main,
                 read_tensors)


def reasons(report, holds):
    return {r['relation']: r['reason'] for r in report['reasons'] if r['holds'] == holds}


@case
def sides_that_begin_with_other_weights_differ_in_their_input():
    other = build(f'exec "{TOOL}" "$@" init_weights_seed=7')
    r = expect(DIFFERENT, SMALL, '--b', 'linen', '--b-bin', other, '--json', '-')
    report = json.loads(r.out)
    check(report['cause'] == 'input differs', report['cause'])
    check('initial parameters' in reasons(report, False)['inputs'], str(report['reasons']))
    first = report['comparisons'][0]['first_divergence']
    check(first['tensor'].startswith('input/params/') and first['step'] == -1, str(first['tensor']))
    check(first['quantity'] == 'input', first['quantity'])


@case
def a_reason_stands_on_a_line_of_its_own():
    wrong = build(f'exec "{TOOL}" "$@" rope_max_timescale=500000')
    expect(DIFFERENT, SMALL, '--b', 'linen', '--b-bin', wrong,
           says=['cause: B wrong', '\nreason: linen against linen@', '\nreason: linen against sequential: equal'])


@case
def an_equal_run_says_what_it_rests_on():
    report = json.loads(expect(EQUAL, SMALL, '--json', '-').out)
    held = reasons(report, True)
    for relation in ('inputs', 'structure', 'engines', 'A and oracle', 'B and oracle', 'counters', 'what both share'):
        check(relation in held, f'{relation} is not in {held}')
    check(not reasons(report, False), str(report['reasons']))
    check(held['what both share'].startswith('linen against sequential64: '), held['what both share'])


@case
def counts_of_updates_are_compared():
    counts = json.loads(expect(EQUAL, SMALL, '--json', '-').out)['comparisons'][0]['counts']['quantities']
    check(counts['state'] == {'expected': 4, 'compared': 4}, str(counts['state']))
    check(counts['input']['compared'] == counts['input']['expected'] > 6, str(counts['input']))


@case
def the_distance_to_truth_tells_the_wrong_side():
    wrong = build(f'exec "{TOOL}" "$@" rope_max_timescale=500000')
    for place, cause in (('--a-bin', 'A wrong'), ('--b-bin', 'B wrong')):
        report = json.loads(expect(DIFFERENT, SMALL, '--b', 'linen', place, wrong, '--json', '-').out)
        distance = report['distance_to_truth']
        near, far = (distance['b'], distance['a']) if place == '--a-bin' else (distance['a'], distance['b'])
        check(report['cause'] == cause, report['cause'])
        check(near <= distance['near'] and far > 1000, str(distance))
    expect(DIFFERENT, SMALL, '--b', 'linen', '--b-bin', wrong, says=['\ndistance to truth: linen 1.0, linen@'])


@case
def both_left_the_oracle_and_one_is_near():
    wrong = build(f'exec "{TOOL}" "$@" rope_max_timescale=500000')
    rounded = build(f'exec "{TOOL}" "$@" --side-shake seed=3,ulp=1,order=0,rows=0,cols=0,depth=0,slope=0,at=0')
    expect(DIFFERENT, SMALL, '--b', 'linen', '--a-bin', wrong, '--b-bin', rounded, says=['cause: A wrong'])


@case
def both_far_is_undecided_and_the_slope_was_asked():
    sides = [build(f'exec "{TOOL}" "$@" rope_max_timescale={base}') for base in (500000, 700000)]
    r = expect(DIFFERENT, SMALL, '--b', 'linen', '--a-bin', sides[0], '--b-bin', sides[1], '--json', '-')
    report = json.loads(r.out)
    check(report['cause'] == 'undecided', report['cause'])
    slope = report['slope']
    check(slope and min(slope['error_a'], slope['error_b']) > slope['tolerance'], str(slope))


@case
def both_gradients_are_the_slope_of_the_loss():
    for target in (SMALL, REFERENCE / 'p01_llama2'):
        slope = json.loads(expect(EQUAL, target, '--check-slope', '--json', '-').out)['slope']
        check(slope['error_a'] <= slope['tolerance'] and slope['error_b'] <= slope['tolerance'], str(slope))
    check(json.loads(expect(EQUAL, SMALL, '--json', '-').out)['slope'] is None, 'a slope that nobody asked for')


@case
def a_count_alone_keeps_equal_numbers_from_being_equal():
    other = build(f'exec "{TOOL}" "$@" pipeline_fsdp_ag_once=true')
    r = expect(INCOMPARABLE, SMALL, '--b', 'linen', '--b-bin', other, '--json', '-')
    report = json.loads(r.out)
    check(report['cause'] == 'structure differs', report['cause'])
    check("of 'residual/weights', expected 0" in reasons(report, False)['counters'], str(report['reasons']))
    check(all(not c['counts']['failing'] for c in report['comparisons'] if 'failing' in c['counts']), 'numbers differ')


@case
def numbers_that_are_none_on_every_side_are_nobodys_fault():
    r = expect(DIFFERENT, SMALL, 'steps=2', 'learning_rate=1e38',
               says=['cause: not finite', ' hold the same NaN or infinity, first step 0 param_norm update',
                     'are NaN or infinite: they are equal to nothing'])
    check('explanation: ' not in r.out and 'replay: ' not in r.out, r.out)


@case
def gradients_that_are_zero_in_theory_are_no_false_alarm():
    one = [SMALL, 'max_target_length=1']
    expect(EQUAL, *one)
    expect(EQUAL, *one, '--a', 'linen64', '--b', 'nnx64')
    made = folder() / 'made'
    expect(EQUAL, *one, '--dump', made)
    side = [sys.executable, '-B', pathlib.Path(__file__).resolve().parent / 'copy_side.py', made, 'grads.safetensors']
    for leaf in 'query', 'key':
        name = next(n for n in read_tensors(made / 'grads.safetensors') if f'/{leaf}/' in n)
        for factor, code in (1.01, EQUAL), (1e5, DIFFERENT):
            command = shlex.join([str(word) for word in (*side, name, factor)])
            expect(code, *one, '--b-cmd', command, says=[f'{leaf}/kernel'] if code == DIFFERENT else [])


main()
