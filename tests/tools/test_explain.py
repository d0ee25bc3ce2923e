#!/usr/bin/env python3
"""What a wrong side is said to be: real engines with a fault in them, compared with a build without (--b-bin)."""
import json

from e2e import BUILD, DIFFERENT, EQUAL, REFERENCE, SMALL, TOOL, build, case, check, expect, folder, main

FAULTY = BUILD / 'tests/dispatch/ab_compare_faulty'


def explain(fault, target, *overrides):
    """The explanations of a run whose side B has the fault, and what was printed."""
    report = folder('report') / 'report.json'
    r = expect(DIFFERENT, target, *overrides, '--b-bin', FAULTY, '--json', report, environment={'AB_FAULT': fault})
    found = json.loads(report.read_text())['explanations']
    check(found, f'{fault} in {target}: no explanation at all: {r.out}')
    for e in found:
        check(f': {e["text"]} [{e["id"]}]' in r.out, f'{fault}: not printed: {e}')
    lines = r.out.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith('explanation: '))
    check(first < 10, f'{fault}: the explanation is line {first + 1}')
    return found, r.out


def says(fault, target, identifier, *texts, overrides=()):
    found, out = explain(fault, target, *overrides)
    check({e['id'] for e in found} == {identifier}, f'{fault} in {target}: expected {identifier}: {found}')
    for text in texts:
        check(any(text in e['text'] for e in found), f'{fault} in {target}: says nothing of "{text}": {found}')


def bundle(name):
    return REFERENCE / name


@case
def weights_of_another_repeat():
    says('stale_gather -1 -1 -', SMALL, 'other-repeat', 'every repeat has the weights of repeat 0', '422 of the 422')
    says('stale_gather -1 -1 -', bundle('p04_llama2'), 'other-repeat', 'every repeat has the weights of repeat 0')


@case
def stages_that_are_swapped():
    says('swapped_stages 0 -1 -', SMALL, 'swapped-stages', "stages 0 and 1 have each other's weights")
    says('swapped_stages 1 -1 -', bundle('p04_llama2'), 'swapped-stages', "stages 1 and 2 have each other's weights")


@case
def a_transposed_weight():
    says('transposed_leaf 1 -1 self_attention/query/kernel', SMALL, 'transposed',
         'self_attention/query/kernel of layer 1 is transposed')


@case
def positions_and_segments():
    says('positions_of_first -1 -1 -', bundle('p12_llama2'), 'positions-of-microbatch', 'of microbatch 0')
    says('positions_of_first -1 -1 -', bundle('t16'), 'positions-of-microbatch', 'of microbatch 0')
    says('segments_of_first -1 -1 -', bundle('t16'), 'segments-of-microbatch', 'of microbatch 0')
    says('no_segments -1 -1 -', bundle('t16'), 'no-segments', 'segments are not seen')


@case
def what_one_cell_was_fed():
    """No pass over the whole batch reproduces it: the replay of its cell does."""
    says('segments_in_first_stage -1 -1 -', bundle('t16'), 'no-segments',
         'every operator of its cell reproduces it when it is given one segment everywhere')
    kept = ('set_remat_policy_on_pipeline_iterations=false',)
    says('weights_of_0_backward 2 -1 -', SMALL, 'other-repeat',
         'given the weights of layer 0 (repeat 0, expected 1), and backward alone', overrides=kept)
    says('weights_of_0_backward 1 -1 -', SMALL, 'other-layer', 'and backward alone', overrides=kept)


@case
def what_backward_or_recomputation_alone_was_fed():
    """Under full remat nothing of the cell is kept: what backward reads was computed again, with whatever it was fed."""
    says('weights_of_0_backward 2 -1 -', SMALL, 'other-repeat',
         'given the weights of layer 0 (repeat 0, expected 1), in recomputation and backward alone')
    says('weights_of_0_backward 1 -1 -', SMALL, 'other-layer', 'in recomputation and backward alone')
    for fault, words in ('segments_backward', 'recomputation and backward'), ('segments_recomputed', 'recomputation'):
        says(f'{fault} 1 -1 -', bundle('t16'), 'no-segments', f'given one segment everywhere, in {words} alone',
             overrides=('set_remat_policy_on_pipeline_iterations=true',))


@case
def a_term_of_the_loss_that_is_missing():
    plain = build(f'exec "{TOOL}" "$@" z_loss_multiplier=0')
    report = folder('report') / 'report.json'
    expect(DIFFERENT, SMALL, 'z_loss_multiplier=0.01', '--b-bin', plain, '--json', report)
    found = json.loads(report.read_text())['explanations']
    check('missing-term' in {e['id'] for e in found}, str(found))
    check(any('without the z-loss: its term, z_loss_multiplier 0.01, is missing' in e['text'] for e in found), str(found))


@case
def labels():
    says('labels_of_first -1 -1 -', bundle('t16'), 'labels-of-microbatch', 'the labels of microbatch 0')
    says('labels_of_next -1 -1 -', bundle('t16'), 'labels-of-microbatch', 'the labels of the next one')
    says('labels_twice_shifted -1 -1 -', bundle('t16'), 'shifted-labels', 'the first of the next')
    says('labels_are_inputs -1 -1 -', bundle('t16'), 'shifted-labels', 'labels are not shifted')


@case
def labels_in_float64():
    says('labels_of_first -1 -1 -', bundle('t16'), 'labels-of-microbatch', 'reproduces it; residual',
         overrides=('--a', 'linen64', '--b', 'nnx64'))


@case
def microbatches_that_do_not_count():
    says('dropped_microbatch -1 1 -', SMALL, 'missing-microbatch', 'is the truth without microbatch 1; residual')
    says('dropped_microbatch -1 2 -', bundle('p05_llama2'), 'missing-microbatch', 'without microbatch 2; residual')
    says('loss_of_last -1 -1 -', bundle('t16'), 'only-microbatch', 'the loss is that of microbatch 3 alone')
    says('loss_without_1 -1 -1 -', bundle('t16'), 'missing-microbatch', 'the loss leaves out microbatch 1')


@case
def gradients():
    says('gradients_over_m -1 -1 -', SMALL, 'constant-factor', 'is the truth times 0.25 (= 1/M); residual')
    says('zero_gradient 1 -1 mlp/wo/kernel', SMALL, 'zero', 'is zero in all 2048 elements')
    says('gradient_of_layer_0 1 -1 -', SMALL, 'other-layer', 'is that of layer 0, expected 1 (bitwise)')


@case
def a_learning_rate_of_another_step():
    says('rate_of_next_step -1 -1 -', SMALL, 'lr-of-step', 'learning rate of step 1', 'of the next step')


@case
def an_update_that_is_scaled():
    found, out = explain('rate_too_large -1 -1 -', SMALL)
    factor = [e['text'] for e in found if e['id'] == 'constant-factor']
    check(any('is updated by the right update times 1.5, as 39 of the 39 parameters of step 0 are' in t for t in factor), out)


@case
def betas_in_each_others_place():
    report = folder('report') / 'report.json'
    for word, text in ('adam_b2=0.9', 'with beta1 in place of beta2'), ('adam_b1=0.95', 'with beta2 in place of beta1'):
        r = expect(DIFFERENT, SMALL, '--b-bin', build(f'exec "{TOOL}" "$@" {word}'), '--json', report)
        found = json.loads(report.read_text())['explanations']
        check(any(e['id'] == 'betas' and text in e['text'] for e in found), f'{word}: {found} {r.out}')


@case
def a_value_that_is_not_finite():
    says('nan 3 2 mlp/wo/kernel', bundle('p10_llama2'), 'not-finite', 'step 0 microbatch 2 layers/3/mlpwo forward')


@case
def what_the_table_does_not_have_is_not_explained():
    says('unordered_sum -1 -1 -', bundle('p04_llama2'), 'none', 'no explanation found, at a relative L2 of ', 'tried: ')
    says('one_ulp 3 -1 mlp/wo/kernel', bundle('p05_llama2'), 'none', 'no explanation found', 'not kept')


@case
def an_upstream_defect_is_named_in_both_engines():
    r = expect(DIFFERENT, bundle('p08_llama2'), 'upstream_faithful=B1', '--intended-oracle')
    for side in ('linen', 'nnx'):
        check(f'explanation: {side}: step 0 microbatch 0 layers/6/pre_norm forward: its weights are those of repeat 0 '
              '(layer 2), expected repeat 1 (layer 6)' in r.out, r.out)


@case
def a_build_without_its_fault_is_equal():
    r = expect(EQUAL, SMALL, '--b-bin', FAULTY, environment={'AB_FAULT': ''})
    check('explanation' not in r.out, r.out)


if __name__ == '__main__':
    main()
