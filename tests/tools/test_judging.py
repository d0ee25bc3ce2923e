#!/usr/bin/env python3
"""One cause: what a whole run folds its comparisons into, and why."""
import json

from e2e import DIFFERENT, EQUAL, SMALL, TOOL, build, case, check, expect, main


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


@case
def counts_of_updates_are_compared():
    counts = json.loads(expect(EQUAL, SMALL, '--json', '-').out)['comparisons'][0]['counts']['quantities']
    check(counts['state'] == {'expected': 4, 'compared': 4}, str(counts['state']))
    check(counts['input']['compared'] == counts['input']['expected'] > 6, str(counts['input']))


main()
