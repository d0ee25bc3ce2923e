#!/usr/bin/env python3
"""What a run compares, with what and in how much: a comparison that is left out, or made with less, is missed here."""
import json

from e2e import DIFFERENT, EQUAL, REFERENCE, ROOT, SMALL, TOOL, build, case, check, expect, main

ALL = {'metric', 'output', 'input gradient', 'weight gradient', 'parameter', 'activation', 'recompute', 'cotangent',
       'input', 'state'}
BUNDLE = ALL - {'parameter', 'state'}  # an engine's: it is differentiated once
SAME, MIXED, F64, RECORDED = 'same arithmetic', 'float32 against float64', 'float64', 'against recorded numbers'
HELD = ['inputs', 'structure', 'engines', 'A and oracle', 'B and oracle', 'recomputation of A', 'recomputation of B',
        'what both share', 'counters']


def trio(a, b, oracle, pair, quantities):
    return [(a, b, pair, quantities), (a, oracle, pair, quantities), (b, oracle, pair, quantities)]


def with_truth(quantities, shared):
    return trio('linen', 'nnx', 'sequential', SAME, quantities) + [('linen', 'sequential64', MIXED, shared)]


RECORD = {'scaled loss against a record', 'scaled gradient against a record', 'missing leaf against a record'}
EXACT = {'one ulp against a golden'}
GOLDEN = ROOT / 'golden/layers_outside'
KEPT = {'metric', 'output', 'input gradient', 'weight gradient', 'parameter'}
TRAINED, ONCE = with_truth(ALL, {'metric', 'weight gradient'}), with_truth(BUNDLE, BUNDLE & KEPT)


def compared(report):
    """(a, b, pair, quantities of which something was compared) in order."""
    return [(c['a'], c['b'], c['pair'], {q for q, n in c['counts']['quantities'].items() if n['compared']})
            for c in report['comparisons']]


def whole(report):
    for c in report['comparisons']:
        check(c['counts']['right'], f"{c['a']} and {c['b']}: counts")
        for quantity, n in c['counts']['quantities'].items():
            check(n['expected'] in (None, n['compared']), f"{c['a']} and {c['b']}: {quantity} {n}")


def measured(report, rule):
    """float32 and float64 never agree: a distance of zero is one of a side to itself."""
    for c in report['comparisons']:
        worst = c['worst']
        if c['pair'] != MIXED:
            continue
        check(worst['evidence'] == 'values' and 0 < worst['distance'] <= worst['bound']['limit'], str(worst))
        check(worst['bound']['rule'].startswith(rule), str(worst))
        sides = [worst['elements']['worst'][side]['dtype'] for side in 'ab']
        check(sides == ['F32', 'F64'], f'values of {sides}')


def equal(expected, held, *arguments):
    report = json.loads(expect(EQUAL, *arguments, '--json', '-').out)
    check(compared(report) == expected, f'{arguments}: {compared(report)}')
    whole(report)
    measured(report, 'calibrated' if GOLDEN in arguments else "4 x the f32 oracle's own distance")
    reasons = [r['relation'] for r in report['reasons'] if r['holds']]
    check(reasons == held and len(reasons) == len(report['reasons']), f'{arguments}: {report["reasons"]}')
    check(report['cause'] == 'equal', f'{arguments}: {report["cause"]}')
    return {c['name'] for c in report['controls']['list'] if c['outcome'] == 'caught'}


@case
def a_trained_case_is_compared_four_times():
    caught = equal(TRAINED, HELD, SMALL)
    check(len(caught) == 23 and not caught & (RECORD | EXACT), str(caught))


@case
def a_bundle_is_compared_with_maxtext_on_both_sides():
    recorded = [(side, 'MaxText', RECORDED, {'metric', 'output', 'weight gradient'}) for side in ('linen', 'nnx')]
    check(RECORD <= equal(ONCE + recorded, HELD, REFERENCE / 'p01_llama2'), 'controls against the bundle')


@case
def a_golden_is_compared_with_both_sides():
    caught = equal(TRAINED + [(side, 'golden', SAME, KEPT) for side in ('linen', 'nnx')],
                   HELD + ['A and golden', 'B and golden'], GOLDEN)
    check(RECORD | EXACT <= caught, f'controls against the golden: {caught}')


@case
def float64_is_compared_by_value():
    held = [h for h in HELD if h != 'what both share']
    equal(trio('linen64', 'nnx64', 'sequential64', F64, {'metric', 'weight gradient', 'input'}), held,
          SMALL, '--a', 'linen64', '--b', 'nnx64')


@case
def residues_are_compared_bit_for_bit():
    recorded = [(side, 'MaxText', RECORDED, {'metric', 'output', 'weight gradient'})
                for side in ('linen-exact', 'nnx-exact')]
    equal(trio('linen-exact', 'nnx-exact', 'sequential-exact', SAME, BUNDLE - {'recompute'}) + recorded, HELD,
          REFERENCE / 'e01_simple', '--a', 'linen-exact', '--b', 'nnx-exact')


def exits(*arguments):
    report = json.loads(expect(DIFFERENT, *arguments, '--no-pending', '--json', '-').out)
    return report['cause'], [c['exit_code'] for c in report['comparisons']]


@case
def a_wrong_side_is_red_wherever_it_is_compared():
    wrong = build(f'exec "{TOOL}" "$@" rope_max_timescale=500000')
    for target, others in ((REFERENCE / 'p01_llama2', 2), (GOLDEN, 2)):
        a = exits(target, '--b', 'linen', '--a-bin', wrong)
        b = exits(target, '--b', 'linen', '--b-bin', wrong)
        check(a == ('A wrong', [1, 1, 0, 1] + [1, 0]), f'{target}: {a}')
        check(b == ('B wrong', [1, 0, 1, 0] + [0, 1]), f'{target}: {b}')


main()
