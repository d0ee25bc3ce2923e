#!/usr/bin/env python3
"""Teeth: what a green run rests on, and that a comparer which cannot turn red is found out by its own controls."""
import json
import pathlib

from e2e import DIFFERENT, EQUAL, REFERENCE, ROOT, SMALL, TOOL, build, case, check, expect, folder, main, refuse

SELFTEST = 6
BLINDED = '../tests/tools/ab_compare_blinded'  # with a verdict that AB_BLINDED breaks: blinded.c

RECORDS = {'scaled loss against a record', 'scaled gradient against a record', 'missing leaf against a record',
           'one ulp against a golden'}  # without golden and bundle


def report_of(*arguments, code=EQUAL, **options):
    return json.loads(expect(code, *arguments, '--json', '-', **options).out)


def outcomes(report):
    return {c['name']: c['outcome'] for c in report['controls']['list']}


@case
def a_green_run_says_which_controls_it_caught():
    r = expect(EQUAL, SMALL, says=['\ncontrols: 23 of 23 caught (n/a: '])
    check(r.out.index('controls: ') < r.out.index('exit: 0'), 'the controls come after the verdict')
    report = report_of(SMALL)
    check({n for n, o in outcomes(report).items() if o != 'caught'} == RECORDS, str(outcomes(report)))
    check(report['controls']['caught'] == len(report['controls']['list']) - len(RECORDS) == 23, str(outcomes(report)))
    expect(EQUAL, ROOT / 'golden/circ_storage', says=['controls: 27 of 27 caught\n'])
    expect(EQUAL, REFERENCE / 't01', says=['controls: 26 of 26 caught (n/a: one ulp against a golden: no exact golden)'])


@case
def verbose_lists_them():
    r = expect(EQUAL, SMALL, '--verbose', says=['\ncontrol: one ulp: caught, exit 1 of expected 1 (step 0 layers/'])
    check(r.out.count('\ncontrol: ') == 27, r.out[:400])


@case
def what_cannot_apply_is_named_with_its_reason():
    expect(EQUAL, ROOT / 'golden/unpipelined', says=['controls: 22 of 22 caught (n/a: ', 'one microbatch; swapped stages: one stage'])
    expect(EQUAL, REFERENCE / 'e01_simple', '--a', 'linen-exact', '--b', 'nnx-exact',
           says=['NaN in a tensor, the same NaN in both tensors: residues have no NaN', 'shifted step: one step', 'no bounded comparison'])
    expect(EQUAL, SMALL, '--a', 'linen64', '--b', 'nnx64', says=['controls: ', 'one ulp: no bitwise comparison'])


@case
def a_red_run_has_no_controls():
    wrong = build(f'exec "{TOOL}" "$@" rope_max_timescale=500000')
    r = expect(DIFFERENT, SMALL, '--b', 'linen', '--b-bin', wrong)
    check('controls: ' not in r.out, r.out)
    report = report_of(SMALL, '--b', 'linen', '--b-bin', wrong, code=DIFFERENT)
    check(report['controls'] is report['unobserved'] is report['blind'] is None, str(report['controls']))


@case
def a_comparer_that_cannot_turn_red_is_found_out():
    missed = {'equal': "'one ulp'", 'structure': "'microbatch not run'", 'unpinned': "'leaf missing on both sides'",
              'metrics': "'scaled loss'", 'wide': "'metric above its bound'", 'strict': "'tensor at its bound'",
              'norms': "'one ulp'"}
    expect(SELFTEST, ROOT / 'golden/circ_storage', tool=BLINDED, environment={'AB_BLINDED': 'record'},
           says=["because: control 'scaled loss against a record' was not caught"])
    for how, control in missed.items():
        expect(SELFTEST, SMALL, tool=BLINDED, environment={'AB_BLINDED': how},
               says=['SELF-TEST FAILED: ', f'\nbecause: control {control} was not caught: ',
                     '\nexit: 6 (self-test failed)'])


@case
def without_sabotage_that_build_is_green():
    expect(EQUAL, SMALL, tool=BLINDED, says=['controls: 23 of 23 caught'])


@case
def json_of_a_failed_self_test():
    report = report_of(SMALL, code=SELFTEST, tool=BLINDED, environment={'AB_BLINDED': 'structure'})
    check(report['exit_code'] == SELFTEST and report['exit_reason'] == 'self-test failed', report['exit_reason'])
    missed = sorted(n for n, o in outcomes(report).items() if o == 'missed')
    check('missing leaf' in missed and 'renamed leaf' in missed and 'one ulp' not in missed, str(missed))
    row = next(c for c in report['controls']['list'] if c['name'] == 'missing leaf')
    check((row['expected_exit'], row['got_exit']) == (5, 0) and 'layers/' in row['on'], str(row))


@case
def a_golden_is_not_recorded_by_a_comparer_without_teeth():
    case_dir = folder('golden') / 'small'
    case_dir.mkdir()
    (case_dir / 'config.yml').write_text(pathlib.Path(SMALL).read_text())
    golden = case_dir / 'golden.json'
    expect(SELFTEST, 'record', case_dir, tool='../tests/tools/ab_golden_blinded',
           environment={'AB_BLINDED': 'structure', 'CI': ''}, says=["because: control 'microbatch not run' was not"])
    check(not golden.exists(), 'a golden was written')
    expect(EQUAL, 'record', case_dir, tool='ab_golden', environment={'CI': ''},
           says=['controls: 23 of 23 caught', 'unobserved: targets_position (changed in every row'])
    recorded = golden.read_text()
    expect(SELFTEST, 'record', case_dir, '--reason', 'again', tool='../tests/tools/ab_golden_blinded',
           environment={'AB_BLINDED': 'equal', 'CI': ''})
    check(golden.read_text() == recorded, 'the golden was touched')


@case
def inputs_that_are_the_same_everywhere_are_named():
    expect(EQUAL, SMALL, says=['\nunobserved: inputs_position (the same in every row), inputs_segmentation (all one '
                               'segment)\n'])
    expect(EQUAL, SMALL, 'packing=true', 'max_segments_per_seq=3', says=['\nunobserved: inputs_position (the same'])
    found = report_of(REFERENCE / 'e01_simple', '--a', 'linen-exact', '--b', 'nnx-exact')['unobserved']
    check(not found['perturbed'] and [u['input'] for u in found['list']] == ['positions', 'segment_ids'], str(found))
    check('decoder block simple does not read them' in found['list'][0]['reason'], str(found))


@case
def in_full_each_input_is_changed():
    expect(EQUAL, SMALL, '--teeth', 'full',
           says=['\nunobserved: targets_position (changed in every row', ' --teeth full\nexit: 0'])
    found = report_of(REFERENCE / 'e01_simple', '--teeth', 'full')['unobserved']
    check(found['perturbed'] and [u['input'] for u in found['list']] == ['positions', 'segment_ids'], str(found))
    expect(EQUAL, REFERENCE / 'p04_llama2', '--teeth', 'full', says=['\nunobserved: no input\n'])
    refuse(SMALL, '--teeth', 'some', says=["--teeth is 'some'", 'full'])


@case
def weights_without_a_gradient_are_unobserved():
    """Defect B1: the engines agree in every bit, and whole layers could have any weights."""
    report = report_of(REFERENCE / 'p08_llama2', 'upstream_faithful=B1')
    found = [u['input'] for u in report['unobserved']['list']]
    check('layers/6/self_attention/query/kernel' in found and len(found) == 18, f'{len(found)}: {found}')
    check(not report_of(REFERENCE / 'p08_llama2')['unobserved']['list'], 'as meant, every weight has a gradient')


@case
def a_run_says_what_it_is_blind_to():
    r = expect(EQUAL, SMALL, says=['\nblind to: three stages, uneven layers, valid tokens, packed documents, ',
                                   ' (not in this build: gradient accumulation, '])
    blind = {b['name']: b for b in report_of(SMALL)['blind']}
    check(blind['three stages']['reason'] == '2 stages: both neighbours are one', str(blind['three stages']))
    check('S32' in blind['three stages']['hides'] and blind['three stages']['in_this_build'], str(blind))
    check(not blind['routing']['in_this_build'] and 'microbatches' not in blind, r.out)
    r = expect(EQUAL, SMALL, '--verbose', says=['\nblind: three steps: 2 steps; hides: stale accumulators'])
    check(r.out.count('\nblind: ') == len(blind), r.out)


@case
def another_config_sees_other_things():
    seen = report_of(SMALL, 'packing=true', 'max_segments_per_seq=3', 'steps=3', 'opt_type=sgd',
                     'ici_pipeline_parallelism=4', 'per_device_batch_size=2', 'override_model_config=true',
                     'base_num_decoder_layers=8', 'ab_compute_bubbles=true')
    names = [b['name'] for b in seen['blind']]
    for name in ('packed documents', 'three steps', 'sgd', 'three stages', 'live bubbles'):
        check(name not in names, f'still blind to {name}')
    check('adam' in names and 'repeats with storage' in names, str(names))


main()
