#!/usr/bin/env python3
"""ab_golden calibrate, and comparisons that its bounds judge."""
import json
import shutil

from e2e import (EQUAL, GOLDEN, INCOMPARABLE, ROOT, SMALL, USAGE, case, change_golden, change_json, check, expect,
                 folder, main)

CASE = 'circ_storage'
NO_CI = {'CI': ''}


def copy():
    """A copy of a golden case that has no calibration."""
    target = folder('golden') / CASE
    shutil.copytree(ROOT / 'golden' / CASE, target)
    change_golden(target / 'golden.json', lambda golden: golden.pop('calibration'))
    return target


def calibrated(runs=4, seed=5):
    target = copy()
    r = expect(EQUAL, 'calibrate', target, '--runs', runs, '--seed', seed, tool='ab_golden', environment=NO_CI,
               says=['calibrated ', f'{runs} runs, seed {seed}', 'cores: '])
    return target, json.loads((target / 'golden.json').read_text())['calibration'], r


def rules(report):
    return {c['worst']['bound']['rule'] for c in report['comparisons'] if c['pair'] == 'float32 against float64'}


@case
def what_was_measured_judges_and_can_be_required():
    target, record, _ = calibrated()
    check(record['runs'] == 4 and record['seed'] == 5 and record['cores'], str(record)[:300])
    check(all(b['bound'] >= 2 * b['largest'] > -1 for b in record['bounds']), str(record['bounds']))
    r = expect(EQUAL, target, '--require-calibration', '--json', '-')
    check(rules(json.loads(r.out)) == {'calibrated for this config'}, str(rules(json.loads(r.out))))
    expect(EQUAL, 'list', target, tool='ab_golden', says=['; calibrated; '])
    expect(EQUAL, 'list', copy(), tool='ab_golden', says=['; not calibrated; '])


@case
def equal_seeds_measure_the_same():
    first, second, other = calibrated()[1], calibrated()[1], calibrated(seed=6)[1]
    check(first['bounds'] == second['bounds'], 'two calibrations with one seed differ')
    check(first['bounds'] != other['bounds'], 'the seed changes nothing')


@case
def without_calibration_the_requirement_is_not_met():
    r = expect(INCOMPARABLE, SMALL, '--require-calibration', '--json', '-')
    report = json.loads(r.out)
    check(report['cause'] == 'uncalibrated', report['cause'])
    check(any('uncalibrated' in rule for rule in rules(report)), str(rules(report)))
    expect(INCOMPARABLE, copy(), '--require-calibration')


@case
def the_requirement_holds_for_goldens_too():
    target = ROOT / 'golden' / 'unpipelined'
    expect(EQUAL, target, '--numerics', 'fast', '--no-pending', says=['linen against golden: within bounds'])
    expect(INCOMPARABLE, target, '--numerics', 'fast', '--no-pending', '--require-calibration',
           says=['cause: uncalibrated'])


@case
def a_fast_run_is_within_the_bounds_of_a_portable_golden():
    """From its first update on it has other parameters than the golden: Adam makes of a rounding of a small gradient
    one of the learning rate."""
    for name in ('circ_storage', 'maxtext_pipeline/pipeline_subset'):
        r = expect(EQUAL, ROOT / 'golden' / name, '--numerics', 'fast', '--no-pending', '--json', '-')
        report = json.loads(r.out)
        golden = [v for v in report['comparisons'] if v['b'] == 'golden']
        check(len(golden) == 2 and all(v['differing'] for v in golden), f'{golden}')


@case
def bounds_are_not_borrowed():
    target, _, _ = calibrated()
    change_json(target / 'golden.json', lambda golden: golden['calibration'].update(config_digest='0' * 32))
    expect(GOLDEN, target, says=['is of another config'])


@case
def what_cannot_be_calibrated():
    expect(USAGE, 'calibrate', copy(), tool='ab_golden', environment={'CI': 'true'})
    target = copy()
    (target / 'golden.json').unlink()
    expect(GOLDEN, 'calibrate', target, tool='ab_golden', environment=NO_CI)


main()
