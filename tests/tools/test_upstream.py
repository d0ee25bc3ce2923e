#!/usr/bin/env python3
"""Defects of the real MaxText code: meant by default, reproduced on demand, and found by the oracle alone.

p08_simple has four stages, two repeats and pipeline_fsdp_ag_per_repeat: stages 2 and 3 of the real engines run repeat 1
with the weights of repeat 0 (B1).
"""
import json
import re
import struct

from e2e import DIFFERENT, EQUAL, GOLDEN, INCOMPARABLE, ROOT, SIDE, USAGE, case, cases, change_json, change_tensors, check, copy_case, \
    expect, folder, main, refuse, run

DEFECTIVE = ['e05_simple', 'p08_simple', 'p08_simple_mlp', 'p08_llama2']
P08 = 'tests/fixtures/reference/p08_simple'
B1 = 'upstream_faithful=B1'


def in_mode(name, faithful):
    def test():
        r = expect(EQUAL, f'tests/fixtures/reference/{name}', *[B1] * faithful)
        check(r.out.startswith('EQUAL: linen against nnx'), f'{r}: {r.out[:200]}')
        meant, real = 'judged by the bundle\'s *_sequential', 'upstream_faithful=B1: engines and oracle reproduce'
        note = real if faithful else meant
        check(note in r.out, f'{r}: no note of the mode: {r.out}')
    return f'{name} {"as MaxText gives it" if faithful else "as it was meant"}', test


for name in DEFECTIVE:
    cases.append(in_mode(name, False))
    cases.append(in_mode(name, True))


@case
def engines_that_share_the_defect_agree_and_only_the_oracle_finds_it():
    report = folder() / 'report.json'
    r = expect(DIFFERENT, P08, B1, '--intended-oracle', '--json', report,
               says=['cause: both moved', 'microbatch 0 layers/6/layer_output forward', 'but not the oracle'])
    compared = {(c['a'], c['b']): c for c in json.loads(report.read_text())['comparisons']}
    check(compared['linen', 'nnx']['differing'] == 0, f'{r}: the engines differ')
    check('linen and nnx agree in every bit' in r.out, f'{r}: no word that the engines agree: {r.out}')
    for engine in ('linen', 'nnx'):
        check(compared[engine, 'sequential']['exit_code'] == DIFFERENT, f'{r}: {engine} is the oracle')
        check(compared[engine, 'MaxText']['exit_code'] == EQUAL, f'{r}: {engine} is not MaxText')


@case
def the_oracle_leaves_out_a_defect_only_where_one_is_asked_for():
    refuse(P08, '--intended-oracle', says=['upstream_faithful names no defect'])


@case
def without_numbers_of_what_was_meant_the_real_ones_judge_and_fail():
    target = copy_case('p08_simple')
    (target / 'grads_sequential.safetensors').unlink()
    (target / 'outputs_sequential.safetensors').unlink()
    expect(DIFFERENT, target, says=['cause: both moved', 'linen against MaxText: numeric difference'])
    expect(EQUAL, target, B1)


def nudge(tensors):
    values = tensors['layers/weights'][2]
    values[0:4] = struct.pack('<f', struct.unpack('<f', values[0:4])[0] + 1)


@case
def each_mode_reads_its_own_gradients():
    for file, mode in (('grads_sequential.safetensors', []), ('grads.safetensors', [B1])):
        target = copy_case('p08_simple')
        change_tensors(target / file, nudge)
        expect(DIFFERENT, target, *mode, says=['against MaxText'])
        expect(EQUAL, target, *([] if mode else [B1]))


@case
def a_sequential_loss_that_is_missing_is_a_malformed_result():
    target = copy_case('p08_simple')
    change_json(target / 'expected.json', lambda e: e.pop('loss_sequential'))
    expect(GOLDEN, target, says=["lacks 'loss_sequential'"])


@case
def half_of_what_was_meant_judges_nothing():
    for gone, kept in (('grads', 'outputs'), ('outputs', 'grads')):
        target = copy_case('p08_simple')
        (target / f'{gone}_sequential.safetensors').unlink()
        expect(GOLDEN, target,
               says=[f'{gone}_sequential.safetensors is missing, expected beside {kept}_sequential.safetensors'])


@case
def what_was_meant_alone_is_no_bundle():
    for gone in (['grads', 'outputs'], ['grads'], ['outputs']):
        target = copy_case('p08_simple')
        for name in gone:
            (target / f'{name}.safetensors').unlink()
        for mode in [], [B1]:
            expect(GOLDEN, target, *mode, says=[f'{gone[0]}.safetensors is missing: nothing to compare with; expected what '
                                                'the engines gave beside what was meant, the *_sequential files'])


@case
def a_linen_stage_of_scanned_layers_fails_as_released():
    scanned = 'tests/fixtures/reference/p09_simple'
    expect(USAGE, scanned, 'upstream_faithful=B31', says=['upstream_faithful=B31 the scanned layers of a Linen stage'])
    expect(EQUAL, scanned, 'upstream_faithful=B31', '--a', 'nnx', '--b', 'sequential')
    expect(EQUAL, 'tests/fixtures/reference/p10_simple', 'upstream_faithful=B31')


@case
def defects_that_move_or_fetch_more_change_no_number():
    reproduces = 'engines and oracle reproduce these defects of MaxText\n'
    expect(EQUAL, 'tests/fixtures/reference/p06_simple', 'upstream_faithful=B7', says=[reproduces])
    expect(EQUAL, 'tests/fixtures/reference/p07_simple', 'upstream_faithful=B13',
           'set_remat_policy_on_pipeline_iterations=false', says=['upstream_faithful=B13: ' + reproduces])


@case
def a_defect_that_a_config_gives_no_occasion_is_not_said_to_be_reproduced():
    for mode in ([], ['--intended-oracle']):  # two stages: every window prefetches what it needs
        expect(EQUAL, 'tests/fixtures/reference/p07_simple', B1, *mode,
               says=['note: upstream_faithful=B1 changes nothing: this config gives no occasion\n'])
    expect(EQUAL, P08, 'upstream_faithful=B1,B7,B31',
           says=['note: upstream_faithful=B1,B7,B31: engines and oracle reproduce these defects of MaxText; this config '
                 'gives no occasion for B7,B31\n'])


REFERENCE = 'tests/fixtures/reference/'


@case
def defects_that_keep_or_recompute_otherwise_change_no_number():
    layers = ('set_remat_policy_on_pipeline_iterations=false', 'set_remat_policy_on_layers_per_stage=true')
    for bundle in ('p04_llama2', 'p07_llama2', 'p10_llama2'):
        expect(EQUAL, REFERENCE + bundle, 'upstream_faithful=B29')
        expect(EQUAL, REFERENCE + bundle, 'upstream_faithful=B15', *layers)
    expect(EQUAL, REFERENCE + 'p10_llama2', 'remat_policy=minimal', *layers)


@case
def a_bubble_that_meets_a_pole_is_named():
    note = 'note: a bubble of stage 1 meets a pole at zero: pre_norm of iteration 0, with epsilon 0, in both sides'
    pole = (REFERENCE + 'p04_llama2', 'normalization_layer_epsilon=0')
    r = expect(DIFFERENT, *pole, 'ab_compute_bubbles=true', '--check-slope',
               says=[note, 'values: linen nan', 'NaN or infinite', 'linen has slope nan', 'linen is off by inf, '])
    check(r.out.count('meets a pole') == 1 and '-nan' not in r.out, r.out)
    expect(DIFFERENT, *pole, 'ab_compute_bubbles=true', '--b', 'sequential',
           says=['cause: A wrong', 'linen is infinitely far from float64', 'distance to truth: linen infinite'])
    r = expect(DIFFERENT, *pole, says=['cause: both moved', 'linen against sequential: equal'])  # another epsilon
    check('pole' not in r.out and 'nan' not in r.out, r.out)
    r = expect(EQUAL, REFERENCE + 'p04_llama2', 'ab_compute_bubbles=true')
    check('pole' not in r.out, r.out)


@case
def every_tensor_of_a_custom_policy_has_its_place():
    places = ('remat_policy=custom', 'query_proj=device', 'mlpwi_0=offload')
    for first in ('device', 'offload', 'remat'):
        expect(EQUAL, REFERENCE + 'p10_llama2', *places, 'decoder_layer_input=' + first)
    expect(USAGE, REFERENCE + 'p10_llama2', 'remat_policy=custom', 'out_proj=disk',
           says=["key 'out_proj' is disk, expected device, offload or remat"])


SOWN = 'record_internal_nn_metrics=1'


@case
def what_layers_sow_is_judged_as_metrics():
    expect(EQUAL, REFERENCE + 'p04_llama2', SOWN, says=['25 of 25 metrics', 'sequential64: within bounds (72 tensors, 25'])
    expect(EQUAL, REFERENCE + 'p04_llama2', SOWN, '--a', 'linen64', '--b', 'nnx64', says=['25 of 25 metrics'])
    expect(EQUAL, REFERENCE + 'e05_simple', SOWN, '--a', 'linen-exact', '--b', 'nnx-exact', says=['1 of 1 metrics'])
    expect(EQUAL, 'golden/layers_outside/config.yml', SOWN, 'steps=2', says=['54 of 54 metrics'])


@case
def sown_metrics_that_both_engines_lose_are_missed_by_the_oracle_alone():
    expect(EQUAL, REFERENCE + 'p08_llama2', SOWN, 'upstream_faithful=B20', says=['1 of 1 metrics'])
    expect(INCOMPARABLE, REFERENCE + 'p08_llama2', SOWN, 'upstream_faithful=B20', '--intended-oracle',
           says=['missing in linen: layers/*/intermediates/activation_stdev forward (8)',
                 'missing in nnx: layers/*/intermediates/activation_mean forward (8)', 'agree in every bit'])


@case
def sown_metrics_of_the_nnx_pipeline_fail_with_repeats_and_are_its_own_without():
    expect(SIDE, REFERENCE + 'p04_llama2', SOWN, 'upstream_faithful=B20',
           says=['side b (nnx)', "'layers/activation_mean' (Intermediate)", 'expected equal trees'])
    expect(INCOMPARABLE, REFERENCE + 'p02_llama2', SOWN, 'upstream_faithful=B20',
           says=['missing in linen: layers/*/intermediates/activation_mean forward (4)',
                 'linen against sequential: equal'])
    expect(EQUAL, REFERENCE + 'p04_llama2', 'upstream_faithful=B20', says=['1 of 1 metrics'])


@case
def sown_metrics_that_are_read_by_iteration_are_wrong_on_both_sides():
    expect(EQUAL, REFERENCE + 'p04_llama2', SOWN, 'upstream_faithful=B21', says=['25 of 25 metrics'])
    expect(DIFFERENT, REFERENCE + 'p04_llama2', SOWN, 'upstream_faithful=B21', '--intended-oracle',
           says=['cause: both moved', '25 metrics, 21 fail', 'layers/0/intermediates/activation_mean forward'])


def transcripts():
    """(arguments, lines as printed but for '...', which stands for anything) of the pages that show this tool."""
    shown = r'^    (?:\$ ab_compare|\./dev compare) (tests/fixtures/.*)\n\n?((?:    .*\n)+)'
    for page in ('docs/upstream-defects.md', 'README.md'):
        for arguments, lines in re.findall(shown, (ROOT / page).read_text(), re.M):
            if re.match('    (EQUAL|DIFFERENT|worst)', lines):
                yield arguments.split(), re.sub(r'\n {5,}', ' ', lines).splitlines()


@case
def the_pages_show_what_is_printed():
    seen = 0
    for arguments, lines in transcripts():
        r = run(*arguments)
        for line in (line.strip() for line in lines):
            if re.match('worst|values|bound|numerics', line):  # of this machine's BLAS
                continue
            pattern = '.*'.join(re.escape(part) for part in line.split('...'))
            if not line.startswith('reproduce'):
                check(re.search('^' + pattern, r.out, re.M), f'{r}: the page has {line!r}, printed was\n{r.out}')
        seen += 1
    check(seen == 7, f'{seen} transcripts')


@case
def the_defects_are_listed_one_a_line():
    r = expect(EQUAL, '--list-upstream-defects')
    lines = r.out.splitlines()
    ids = [line.split()[0] for line in lines]
    check(ids == sorted(set(ids), key=lambda i: int(i[1:])), f'{r}: {ids}')
    for wanted in ('B1', 'B7', 'B13', 'B15', 'B20', 'B21', 'B29', 'B31', 'B32', 'B33', 'B34'):
        check(wanted in ids, f'{r}: no {wanted}')
    check('(not here' not in lines[0], f'{r}: {lines[0]}')


@case
def a_defect_that_cannot_be_reproduced_is_refused_with_its_reason():
    refuse(P08, 'upstream_faithful=B23', says=['B23 is known, but quantization is not built'])
    refuse(P08, 'upstream_faithful=B4711', says=["key 'upstream_faithful' is B4711, expected a comma-separated list"])


main()
