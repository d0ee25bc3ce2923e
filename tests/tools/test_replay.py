#!/usr/bin/env python3
"""Where a side leaves its oracle, the cell replayed there, and the artifact that repeats the judgement elsewhere."""
import json
import pathlib
import shutil
import struct
import subprocess

from e2e import BUILD, DIFFERENT, EQUAL, REFERENCE, SMALL, USAGE, case, change_json, change_tensors, check, expect, folder
from e2e import main, read_tensors, refuse, run

FAULTY = BUILD / 'tests/dispatch/ab_compare_faulty'
FILES = {'artifact.json', 'config.yml', 'inputs.safetensors', 'recorded.safetensors'}
LABELS = ('first differing bit: ', 'first above bound: ', 'last good tensor: ', 'replay: ')


def compare(fault, target, *options):
    """The report of a run whose side B has the fault, and its lines about the place."""
    report = folder('report') / 'report.json'
    r = expect(DIFFERENT, target, *options, '--b-bin', FAULTY, '--json', report, environment={'AB_FAULT': fault})
    lines = r.out.splitlines()
    for label in LABELS:
        at = [n for n, line in enumerate(lines) if line.startswith(label)]
        check(at and at[0] < 10, f'{fault}: "{label}" is not in the first ten lines: {r.out}')
    return json.loads(report.read_text()), [line for line in lines if line.startswith('replay: ')]


def place(point):
    return tuple(point[key] for key in ('step', 'microbatch', 'layer', 'tensor', 'phase'))


def finds(fault, target, first, operator, *texts, options=(), fed=''):
    report, lines = compare(fault, target, *options)
    divergence, replay = report['divergence'], report['replay']
    check(divergence['reference'] == 'sequential', f'{fault}: {divergence}')
    check(place(divergence['first_bit']) == first, f'{fault} in {target}: {divergence["first_bit"]}, expected {first}')
    check(replay['operator'] == operator, f'{fault} in {target}: {replay}, expected operator "{operator}"')
    check(replay['fed'].startswith(fed) and bool(replay['fed']) == bool(fed), f'{fault}: fed "{replay["fed"]}"')
    check(replay['lines'] == lines, f'{fault}: {replay["lines"]} in JSON, {lines} printed')
    for text in texts:
        check(any(text in line for line in lines), f'{fault} in {target}: no "{text}" in {lines}')
    return report


def artifact(fault='swiglu -1 -1 -', target=SMALL):
    """A folder that a red run has left."""
    kept = folder('artifact') / 'cell'
    expect(DIFFERENT, target, '--b-bin', FAULTY, '--save-artifact', kept, environment={'AB_FAULT': fault})
    check({p.name for p in kept.iterdir()} == FILES, f'{sorted(kept.iterdir())}')
    return kept


def replayed(r):
    return [line for line in r.out.splitlines() if line.startswith('replay: ')]


@case
def a_forward_fault_names_its_operator():
    report = finds('swiglu -1 -1 -', SMALL, (0, 0, 0, 'mlp_hidden', 'forward'), 'swiglu',
                   'operator swiglu of', 'differs given agreed inputs', 'is off by 0.001, sequential by')
    first, good = report['divergence']['first_bit'], report['divergence']['last_good']
    check((first['iteration'], first['stage'], first['repeat']) == (0, 0, 0), f'{first}')
    check(first['operator'] == 'swiglu' and good['operator'] == 'wi_1', f'{first} after {good}')
    check(abs(first['distance'] - 1e-3) < 1e-5 and first['values']['differing'] > 0, f'{first}')
    check(place(report['divergence']['first_above']) == place(first), 'a thousandth is above the bound')
    finds('transposed_leaf 1 -1 self_attention/query/kernel', SMALL, (0, 0, 1, 'query_raw', 'forward'), 'query')
    finds('nan 1 3 mlp/wi_0/kernel', SMALL, (0, 3, 1, 'mlpwi_0', 'forward'), 'wi_0', 'is off by inf')


@case
def a_bit_is_not_yet_above_the_bound():
    report = finds('one_ulp 2 -1 self_attention/query/kernel', SMALL, (0, 0, 2, 'query_raw', 'forward'), 'query')
    check(report['divergence']['first_above'] is None, f'{report["divergence"]["first_above"]}')
    check(0 < report['divergence']['first_bit']['distance'] < 1e-6, f'{report["divergence"]["first_bit"]}')


@case
def a_backward_fault_does_not_smear():
    finds('attention_backward -1 -1 -', SMALL, (0, 3, 3, 'value_proj', 'backward'), 'attention',
          'operator attention (backward) of', '; 1 outputs of the cell differ so')


@case
def wrong_weights_positions_and_segments_are_named():
    finds('stale_gather -1 -1 -', REFERENCE / 'p04_llama2', (0, 0, 4, 'pre_norm', 'forward'), '',
          'every operator reproduces', fed='the weights of layer 0 (repeat 0, expected 1)')
    finds('swapped_stages 1 -1 -', REFERENCE / 'p04_llama2', (0, 0, 1, 'pre_norm', 'forward'), '',
          fed='the weights of layer 2 (stage 2, expected 1)')
    finds('positions_of_first -1 -1 -', REFERENCE / 'p12_llama2', (0, 1, 0, 'query_proj', 'forward'), '',
          fed='the positions of microbatch 0')
    finds('segments_of_first -1 -1 -', REFERENCE / 't16', (0, 1, 0, 'attention_core', 'forward'), '',
          fed='the segments of microbatch 0')


@case
def another_input_is_no_fault_of_an_operator():
    finds('wrong_ring_shift -1 -1 -', REFERENCE / 'p04_llama2', (0, 0, 1, 'decoder_layer_input', 'forward'), '',
          'from what it was given', 'the operators are not at fault', fed='another input: zeros')


@case
def a_sum_over_microbatches_is_replayed():
    name = 'pre_self_attention_layer_norm/scale'
    finds('dropped_microbatch -1 1 -', SMALL, (0, -1, 0, name, 'backward'), 'accumulation',
          'given agreed cotangents', 'which comes out bit for bit', fed='the sum without microbatch 1')
    report = finds('unordered_sum -1 -1 -', SMALL, (0, -1, 0, 'self_attention/query/kernel', 'backward'),
                   'accumulation', 'is not their sum over 4 microbatches')
    check(report['replay']['kind'] == 'sum', f'{report["replay"]}')


@case
def outside_the_layers_the_part_is_named():
    finds('labels_of_first -1 -1 -', REFERENCE / 't16', (0, -1, -1, 'd_logits', 'backward'), 'the loss',
          'what it reads agrees: logits')
    finds('rate_of_next_step -1 -1 -', SMALL, (0, -1, -1, 'token_embedder/embedding', 'update'), 'the optimizer',
          'its gradient agrees')


@case
def a_later_step_is_replayed_with_its_own_weights():
    finds('swiglu_from_1 -1 -1 -', SMALL, (1, 0, 0, 'mlp_hidden', 'forward'), 'swiglu', 'cell (step 1, iteration 0')


@case
def upstreams_own_defect_is_the_references_too():
    finds('attention_backward -1 -1 -', REFERENCE / 'p08_llama2', (0, 7, 7, 'value_proj', 'backward'), 'attention',
          'sequential itself runs this cell with the weights of layer 3', options=['upstream_faithful=B1'])


@case
def portable_numerics_are_replayed_too():
    finds('swiglu -1 -1 -', SMALL, (0, 0, 0, 'mlp_hidden', 'forward'), 'swiglu', options=['--numerics', 'portable'])


@case
def equal_sides_are_not_replayed():
    report = folder('report') / 'report.json'
    kept = folder('artifact') / 'cell'
    r = expect(EQUAL, SMALL, '--json', report, '--save-artifact', kept, says=['nothing was written'])
    found = json.loads(report.read_text())
    check(found['divergence'] is None and found['replay'] is None, 'an equal run says where it differs')
    check(not kept.exists() and 'replay: ' not in r.out, r.out)


@case
def an_artifact_repeats_the_judgement_elsewhere():
    for fault, target in (('swiglu -1 -1 -', SMALL), ('attention_backward -1 -1 -', SMALL),
                          ('stale_gather -1 -1 -', REFERENCE / 'p04_llama2'), ('dropped_microbatch -1 1 -', SMALL),
                          ('wrong_ring_shift -1 -1 -', REFERENCE / 'p04_llama2')):
        kept = folder('artifact') / 'cell'
        first = expect(DIFFERENT, target, '--b-bin', FAULTY, '--save-artifact', kept, environment={'AB_FAULT': fault})
        elsewhere = folder('elsewhere') / 'moved'
        shutil.move(kept, elsewhere)
        again = expect(DIFFERENT, '--replay', elsewhere, cwd=elsewhere.parent)
        check(replayed(again) == replayed(first), f'{fault}: {replayed(again)}, in the run {replayed(first)}')
        check(again.out.startswith('DIFFERENT: replay of '), again.out)
        said = json.loads((elsewhere / 'artifact.json').read_text())
        check(said['schema'] == 'abpipe-artifact/2' and said['replay']['lines'] == replayed(first), f'{said}')


@case
def another_core_judges_by_distance():
    kept = artifact()
    r = run('--replay', kept, environment={'OPENBLAS_CORETYPE': 'Haswell'})
    check(r.code == DIFFERENT and 'operator swiglu of' in r.out, r.out + r.err)


def seal(kept):
    """What a test changed is what artifact.json says: the replay judges it as if it had been saved so."""
    names = sorted(FILES - {'artifact.json'})
    digests = subprocess.run([BUILD / 'tests/tools/file_digest', *(kept / name for name in names)], check=True,
                             capture_output=True, text=True).stdout.split()
    change_json(kept / 'artifact.json', lambda j: j.update(files=dict(zip(names, digests))))


def doctor(kept, change, name='recorded.safetensors'):
    change_tensors(kept / name, change)
    seal(kept)


def put_right(tensors):
    for name in list(tensors):
        if name.startswith('b/'):
            tensors[name] = tensors['reference/' + name[2:]]


@case
def an_artifact_without_a_difference_is_equal():
    kept = artifact()
    doctor(kept, put_right)
    r = expect(EQUAL, '--replay', kept, says=['EQUAL: replay of', 'every operator reproduces'])
    check('differs' not in r.out, r.out)


@case
def every_operator_is_found_where_it_is_doctored():
    kept = artifact()
    doctor(kept, put_right)
    right = (kept / 'recorded.safetensors').read_bytes()
    for phase, slot, operator in (('forward', 'pre_norm', 'pre_norm'), ('forward', 'attention_core', 'attention'),
                                  ('forward', 'out_proj', 'out'), ('forward', 'layer_output', 'mlp_residual'),
                                  ('backward', 'mlp_hidden', 'wo'), ('backward', 'mlpwi_1', 'swiglu'),
                                  ('backward', 'pre_norm', 'query/key/value'),
                                  ('backward', 'decoder_layer_input', 'pre_norm/attention_residual')):
        (kept / 'recorded.safetensors').write_bytes(right)

        def one_more(tensors):
            data = tensors[f'b/0/{phase}/{slot}'][2]
            data[:4] = struct.pack('<f', 1 + struct.unpack('<f', data[:4])[0])
        doctor(kept, one_more)
        r = expect(DIFFERENT, '--replay', kept)
        check(f'operator {operator}{" (backward)" if phase == "backward" else ""} of' in r.out,
              f'{phase} {slot}: {r.out}')


@case
def a_damaged_artifact_is_refused():
    good = artifact()
    for name in FILES:
        bad = folder('bad') / 'cell'
        shutil.copytree(good, bad)
        (bad / name).unlink()
        refuse('--replay', bad, says=[name])
        shutil.copy(good / name, bad)
        data = (bad / name).read_bytes()
        if name != 'config.yml':
            (bad / name).write_bytes(data[:len(data) // 2])
            refuse('--replay', bad)
    refuse('--replay', folder('empty'))
    refuse('--replay', '/nonexistent/artifact', says=['/nonexistent/artifact'])


def one_bit(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@case
def a_file_that_was_changed_is_refused():
    """Also where what it holds can be read, and would be judged."""
    good = artifact()
    other = artifact('attention_backward -1 -1 -')
    for name in FILES - {'artifact.json'}:
        for change in (one_bit, lambda path: path.write_bytes(path.read_bytes() + b'\n'),
                       lambda path: shutil.copy(other / path.name, path) if 'recorded' in path.name else one_bit(path)):
            bad = folder('bad') / 'cell'
            shutil.copytree(good, bad)
            change(bad / name)
            refuse('--replay', bad, says=[f'{bad / name}', 'it is not the file that was saved'])
    expect(DIFFERENT, '--replay', good)


@case
def a_forged_artifact_is_refused():
    good = artifact()

    def forge(change, *says, name='artifact.json'):
        bad = folder('bad') / 'cell'
        shutil.copytree(good, bad)
        change_json(bad / name, change) if name == 'artifact.json' else doctor(bad, change, name)
        refuse('--replay', bad, says=says)

    for key, value in (('schema', 'abpipe-artifact/3'), ('schema', 'abpipe-artifact/1'), ('kind', 'whole'),
                       ('wrong', 'reference'), ('layer', -1), ('layer', 1 << 20), ('parts', (1 << 31) - 1),
                       ('microbatch', 99), ('parts', 0), ('phase', 'update'), ('step', 1 << 40), ('tensor', 'x' * 500)):
        forge(lambda j, k=key, v=value: j.__setitem__(k, v), key)
    forge(lambda j: j.__setitem__('numerics', 'exact'), 'numerics')
    forge(lambda j: j.pop('sides'), 'sides')
    forge(lambda j: j.pop('files'), 'files')
    for name in FILES - {'artifact.json'}:
        forge(lambda j, n=name: j['files'].pop(n), name)
    forge(lambda j: j.update(kind='sum', tensor='no/kernel', phase='backward'), 'no/kernel')
    for name in ('x/0', 'params/mlp/wo/kernel', 'positions/0', 'segment_ids/0'):
        forge(lambda t, n=name: t.pop(n), name.split('/')[0], name='inputs.safetensors')
        forge(lambda t, n=name: t.__setitem__(n, ['F32', [1, 1, 1], bytes(4)]), name.split('/')[0],
              name='inputs.safetensors')
    for name in ('b/0/forward/query_raw', 'reference/0/backward/mlp_hidden'):
        forge(lambda t, n=name: t.pop(n), name, name='recorded.safetensors')
    forge(lambda t: t.clear(), 'b/0/forward/mlp_hidden', name='recorded.safetensors')
    forge(lambda t: [t.pop(f'{side}/0/forward/mlp_hidden') for side in ('b', 'reference')], 'b/0/forward/mlp_hidden',
          name='recorded.safetensors')
    forge(lambda t: t.__setitem__('b/0/forward/query_raw', ['F32', [3], bytes(12)]), 'b/0/forward/query_raw',
          name='recorded.safetensors')


@case
def only_an_artifact_is_overwritten():
    kept = artifact()
    before = read_tensors(kept / 'recorded.safetensors')
    expect(DIFFERENT, SMALL, '--b-bin', FAULTY, '--save-artifact', kept,
           environment={'AB_FAULT': 'attention_backward -1 -1 -'})
    check(before.keys() != read_tensors(kept / 'recorded.safetensors').keys(), 'the old artifact is still there')
    expect(DIFFERENT, '--replay', kept, says=['operator attention (backward)'])
    (kept / 'mine.txt').write_text('not yours')
    refuse(SMALL, '--save-artifact', kept, says=['holds something else'])
    check((kept / 'mine.txt').read_text() == 'not yours', 'a file of somebody else is gone')
    other = folder('other')
    (other / 'artifact.json').write_text('{"schema": "something/1"}')
    refuse(SMALL, '--save-artifact', other, says=['holds something else'])


@case
def replay_takes_no_case_and_no_side():
    kept = artifact()
    for extra in (['configs/main.yml'], ['--a', 'linen'], ['--b-bin', 'x'], ['--json', 'x'], ['--numerics', 'fast'],
                  ['--steps', '2'], ['--save-artifact', 'x']):
        refuse('--replay', kept, *extra, says=['--replay was given with'])
    check(run('--suite', 'x.yml', '--replay', kept).code == USAGE, '--suite takes no --replay')


@case
def the_name_of_an_artifact_steers_nothing():
    kept = artifact().rename(folder() / 'd\x1b[31mred')
    r = expect(DIFFERENT, '--replay', kept, says=['/d\\x1b[31mred\n'])
    check('\x1b' not in r.out, f'{r.out!r}')


@case
def a_replay_takes_no_other_form_of_report():
    kept = folder() / 'kept'
    run(SMALL, '--b-bin', FAULTY, '--save-artifact', kept, environment={'AB_FAULT': 'attention_backward -1 -1 -'})
    for form in (['--junit', folder() / 'r.xml'], ['--json', '-'], ['--markdown', folder() / 'r.md'], ['--github']):
        refuse('--replay', kept, *form, says=['--replay was given with another form of report'])
        check(not any(pathlib.Path(str(word)).exists() for word in form[1:]), f'{form} was written')
    expect(DIFFERENT, '--replay', kept)


main()
