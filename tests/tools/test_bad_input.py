#!/usr/bin/env python3
"""Bad input, each in one way: the exit code, and a sentence that names what is wrong.

How the table of exit codes is read: the inputs of a run are config.yml, meta.json, params and batch, so whatever is
wrong with them is a mistake of who runs it (2). The results it is compared with are expected.json, which is asked for
as a golden is (4: missing, malformed, newer), and the tensors of grads, outputs, params_step1 and params_final: damaged
files are a bad golden (4), other names, shapes or types than the run's cannot be compared (5). A NaN in results is
data: it equals nothing (1).
"""
import json
import os
import shutil
import struct

from e2e import (DIFFERENT, EQUAL, FAULTS, GOLDEN, INCOMPARABLE, ROOT, USAGE, case, change_golden, change_json,
                 change_tensors, check, copy_case, expect, folder, main, refuse, run)

ENGINE, TRAIN = 'p01_llama2', 't16'
LEAF = 'layers/mlp/wo/kernel'
TRAIN_LEAF = 'decoder/pipeline_module/layers/mlp/wo/kernel'


def config_file(text, name='bad.yml'):
    path = folder() / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@case
def configs_that_are_not_there():
    refuse('nowhere.yml', says=["'nowhere.yml'"])
    refuse(folder(), says=['config.yml'])
    refuse('/dev/null', says=['/dev/null'])
    refuse(config_file('base_config: nowhere.yml\n'), says=['nowhere.yml'])
    secret = config_file('steps: 1\n')
    secret.chmod(0)
    if os.geteuid() != 0:  # root reads everything
        refuse(secret, says=['bad.yml'])
    ring = folder() / 'ring.yml'
    ring.symlink_to(ring)
    refuse(ring, says=['ring.yml'])


@case
def configs_that_are_no_yaml():
    rows = {'steps: [1\n': 'bad.yml:',
            'steps: 1\n  emb: 2\n': 'bad.yml:',
            '- steps\n': 'bad.yml:',
            'steps: &a 1\nvocab_size: *b\n': 'bad.yml:',
            'steps: 1\nsteps: 2\n': 'steps',
            '\x00\x01\x02': 'bad.yml',
            '': 'bad.yml',
            'steps: 1\n---\nsteps: 2\n': 'bad.yml'}
    for text, name in rows.items():
        r = run(config_file(text))
        if text == '':  # an empty file is MaxText with its defaults: refused for what those ask for
            check(r.code == USAGE, f'{r}: exit {r.code}')
            continue
        check(r.code == USAGE and name in r.err and r.err.count('\n') == 1, f'{text!r}: exit {r.code}: {r.err}')
    refuse(config_file(b'run_name: \xff\xfe\n'), says=['bad.yml'])


@case
def configs_that_are_too_large():
    refuse(config_file('run_name: ' + 'x' * (2 << 20) + '\n'), says=['bad.yml'])
    refuse(config_file('run_name: ' + '[' * 1000 + ']' * 1000 + '\n'), says=['bad.yml'])
    refuse(config_file(''.join(f'k{i}: 1\n' for i in range(30000))), says=['bad.yml'])


@case
def values_of_the_wrong_kind():
    text = (FAULTS / 'circ.yml').read_text()
    refuse(config_file(text + 'z_loss_multiplier: many\n'), says=['bad.yml:', "'z_loss_multiplier'", 'many'])
    refuse(config_file(text + 'learning_rate: .nan\n'), says=["'learning_rate'"])
    refuse(config_file(text + 'no_such_key: 1\n'), says=['bad.yml:', "'no_such_key'"])
    refuse(config_file(text + 'dtype: bfloat16\n'), says=['bad.yml:', "'dtype'"])


@case
def a_step_that_would_be_walked_for_hours():
    refuse('configs/base.yml', 'ici_pipeline_parallelism=2', 'num_pipeline_microbatches=1600000000', 'max_target_length=1',
           'per_device_batch_size=800000000', says=["key 'num_pipeline_microbatches' is 1600000000", 'at most 1048576'])


def bundles(source, rows):
    """rows: what, how to damage a copy, exit code, texts that must be said."""
    for what, damage, code, says in rows:
        target = copy_case(source)
        damage(target)
        r = run(target)
        said = r.out + r.err
        check(r.code == code, f'{what}: exit {r.code}, expected {code}: {said[:500]}')
        for text in says:
            check(text in said, f'{what}: says nothing of "{text}": {said[:500]}')


def cut(name, size):
    return lambda target: os.truncate(target / name, size)


def remove(name):
    return lambda target: (target / name).unlink()


def write(name, text):
    return lambda target: (target / name).write_text(text)


def replace(name, old, new):
    return lambda target: (target / name).write_text((target / name).read_text().replace(old, new))


def tensors(name, change):
    return lambda target: change_tensors(target / name, change)


def numbers(name, change):
    return lambda target: change_json(target / name, change)


def put_float(tensor, index, value):
    def change(t):
        struct.pack_into('<f', t[tensor][2], 4 * index, value)
    return change


def put_int(tensor, index, value):
    def change(t):
        struct.pack_into('<i', t[tensor][2], 4 * index, value)
    return change


def add(tensor):
    return lambda t: t.update({tensor: ['F32', [2], bytes(8)]})


def reshape(tensor, shape):
    def change(t):
        t[tensor][1] = shape
    return change


def retype(tensor):
    def change(t):
        t[tensor][0] = 'I32' if t[tensor][0] == 'F32' else 'F32'
    return change


def drop(tensor):
    return lambda t: t.pop(tensor)


NAN, INFINITY = float('nan'), float('inf')


@case
def inputs_of_a_bundle_that_cannot_be_read():
    bundles(ENGINE, [
        ('no weights', remove('params.safetensors'), USAGE, ['params.safetensors']),
        ('no batch', remove('batch.safetensors'), USAGE, ['batch.safetensors']),
        ('no config', remove('config.yml'), USAGE, ['config.yml']),
        ('weights cut short', cut('params.safetensors', 20000), USAGE, ['params.safetensors']),
        ('weights cut in the header', cut('params.safetensors', 100), USAGE, ['params.safetensors']),
        ('weights cut in the length', cut('params.safetensors', 4), USAGE, ['params.safetensors']),
        ('empty weights', cut('params.safetensors', 0), USAGE, ['params.safetensors']),
        ('batch cut short', cut('batch.safetensors', 1000), USAGE, ['batch.safetensors']),
        ('a header of 2^63 bytes', lambda t: (t / 'params.safetensors').write_bytes(b'\xff' * 7 + b'\x7f' + b'{}'),
         USAGE, ['params.safetensors']),
        ('meta.json is no JSON', write('meta.json', '{"kind": '), USAGE, ['meta.json']),
        ('meta.json of an unknown kind', numbers('meta.json', lambda m: m.update(kind='magic')), USAGE, ['meta.json']),
        ('meta.json without a kind', numbers('meta.json', lambda m: m.pop('kind')), USAGE, ['meta.json', 'kind']),
    ])


@case
def weights_and_batch_that_do_not_fit_the_config():
    bundles(ENGINE, [
        ('weights of another shape', tensors('params.safetensors', reshape(LEAF, [2, 16, 32])), USAGE,
         [LEAF, '[2, 16, 32]', '[2, 32, 16]']),
        ('weights of another type', tensors('params.safetensors', retype(LEAF)), USAGE, [LEAF, 'I32', 'F32']),
        ('an unknown weight', tensors('params.safetensors', add('layers/mlp/wi_9/kernel')), USAGE,
         ['layers/mlp/wi_9/kernel']),
        ('a missing weight', tensors('params.safetensors', drop(LEAF)), USAGE, [LEAF, 'params.safetensors']),
        ('a batch of another shape', tensors('batch.safetensors', reshape('inputs', [4, 24, 16])), USAGE,
         ["'inputs'", '[4, 24, 16]', '[8, 12, 16]']),
        ('no positions', tensors('batch.safetensors', drop('positions')), USAGE, ["'positions'"]),
        ('positions of another type', tensors('batch.safetensors', retype('positions')), USAGE, ["'positions'"]),
        ('another config', replace('config.yml', 'base_emb_dim: 16', 'base_emb_dim: 32'), USAGE,
         ['params.safetensors']),
    ])
    bundles(TRAIN, [
        ('a batch of fewer rows', tensors('batch.safetensors', reshape('inputs', [4, 2, 32])), USAGE, ["'inputs'"]),
        ('an unknown weight', tensors('params.safetensors', add('decoder/bias')), USAGE, ['decoder/bias']),
        ('a token outside the vocabulary', tensors('batch.safetensors', put_int('inputs', 5, 96)), USAGE,
         ["'inputs'", '96', '[0, 0, 5]']),
        ('a negative token', tensors('batch.safetensors', put_int('targets', 17, -1)), USAGE,
         ["'targets'", '[0, 1, 1]']),
    ])


@case
def values_that_are_no_numbers():
    bundles(ENGINE, [
        ('NaN in weights', tensors('params.safetensors', put_float(LEAF, 33, NAN)), USAGE, [LEAF, '[0, 2, 1]', 'nan']),
        ('infinity in weights', tensors('params.safetensors', put_float(LEAF, 0, INFINITY)), USAGE,
         [LEAF, '[0, 0, 0]', 'inf']),
        ('NaN in the batch', tensors('batch.safetensors', put_float('inputs', 17, NAN)), USAGE,
         ["'inputs'", '[0, 1, 1]', 'nan']),
        ('-infinity in targets', tensors('batch.safetensors', put_float('targets', 1, -INFINITY)), USAGE,
         ["'targets'", '[0, 0, 1]']),
    ])


@case
def results_that_are_missing_or_malformed():
    bundles(ENGINE, [
        ('no expected.json', remove('expected.json'), GOLDEN, ['expected.json']),
        ('expected.json is no JSON', write('expected.json', '{"loss": {"value": 1.0'), GOLDEN, ['expected.json']),
        ('expected.json is a list', write('expected.json', '[]'), GOLDEN, ['expected.json']),
        ('expected.json has a key twice', write('expected.json', '{"loss": {"value": 1.0}, "loss": {"value": 2.0}}'),
         GOLDEN, ['expected.json', 'loss']),
        ('expected.json of a newer schema', numbers('expected.json', lambda e: e.update(schema=2)), GOLDEN,
         ['expected.json', 'newer']),
        ('expected.json without a loss', numbers('expected.json', lambda e: e.pop('loss')), GOLDEN, ['loss']),
        ('a loss that is NaN', numbers('expected.json', lambda e: e['loss'].update(value=NAN)), GOLDEN, ['expected.json']),
        ('a loss that is text', numbers('expected.json', lambda e: e['loss'].update(value='1.0')), GOLDEN, ['loss']),
        ('gradients cut short', cut('grads.safetensors', 20000), GOLDEN, ['grads.safetensors']),
        ('outputs cut short', cut('outputs.safetensors', 1000), GOLDEN, ['outputs.safetensors']),
    ])
    bundles(TRAIN, [
        ('no step', numbers('expected.json', lambda e: e.update(steps=[])), GOLDEN, ['expected.json']),
        ('a step without a loss', numbers('expected.json', lambda e: e['steps'][1].pop('loss')), GOLDEN, ['loss']),
        ('a step too many', numbers('expected.json', lambda e: e['steps'].append(e['steps'][-1])), GOLDEN,
         ['expected.json', 'steps has', 'the steps of the batch']),
        ('a step too few', numbers('expected.json', lambda e: e['steps'].pop()), GOLDEN,
         ['expected.json', 'steps has', 'the steps of the batch']),
    ])


@case
def results_of_another_structure():
    bundles(ENGINE, [
        ('an unknown gradient', tensors('grads.safetensors', add('layers/mlp/wi_9/kernel')), INCOMPARABLE,
         ['layers/mlp/wi_9/kernel']),
        ('a missing gradient', tensors('grads.safetensors', drop(LEAF)), INCOMPARABLE, [LEAF]),
        ('a gradient of another shape', tensors('grads.safetensors', reshape(LEAF, [2, 16, 32])), INCOMPARABLE,
         [LEAF, '[2, 16, 32]']),
        ('a gradient of another type', tensors('grads.safetensors', retype(LEAF)), INCOMPARABLE, [LEAF, 'I32']),
        ('no gradients at all', remove('grads.safetensors'), GOLDEN, ['grads.safetensors', 'missing']),
        ('no outputs at all', remove('outputs.safetensors'), GOLDEN, ['outputs.safetensors', 'missing']),
    ])
    bundles(TRAIN, [
        ('an unknown final parameter', tensors('params_final.safetensors', add('decoder/bias')), INCOMPARABLE,
         ['decoder/bias']),
        ('a parameter after step 1 of another shape',
         tensors('params_step1.safetensors', reshape(TRAIN_LEAF, [2, 2, 32, 64])), INCOMPARABLE, [TRAIN_LEAF]),
    ])


@case
def results_that_differ():
    bundles(ENGINE, [
        ('NaN in a gradient', tensors('grads.safetensors', put_float(LEAF, 33, NAN)), DIFFERENT, [LEAF]),
        ('another loss', numbers('expected.json', lambda e: e['loss'].update(value=1.5)), DIFFERENT, ['loss', '1.5']),
    ])
    bundles(TRAIN, [
        ('another loss of a step', numbers('expected.json', lambda e: e['steps'][2]['loss'].update(value=9.0)),
         DIFFERENT, ['step 2', 'loss']),
        ('another final parameter', tensors('params_final.safetensors', put_float(TRAIN_LEAF, 7, 2.0)), DIFFERENT,
         [TRAIN_LEAF]),
    ])


def exchange(one, two):
    def change(target):
        (target / one).rename(target / 'aside')
        (target / two).rename(target / one)
        (target / 'aside').rename(target / two)
    return change


@case
def files_of_one_structure_that_stand_for_each_other():
    weights, gradients, first, last = (f'{n}.safetensors' for n in ('params', 'grads', 'params_step1', 'params_final'))
    bundles(ENGINE, [('weights and gradients', exchange(weights, gradients), DIFFERENT, ['DIFFERENT', 'MaxText'])])
    bundles(TRAIN, [('weights before and after', exchange(weights, last), DIFFERENT, ['DIFFERENT', 'MaxText']),
                    ('weights after one step and after all', exchange(first, last), DIFFERENT, ['MaxText'])])


@case
def what_nobody_needs_is_ignored():
    def extra(target):
        (target / 'notes.txt').write_text('x')
        change_json(target / 'expected.json', lambda e: e.update(new_metric={'value': 1.0}))
        change_tensors(target / 'batch.safetensors', add('something_else'))
    bundles(ENGINE, [('more than is needed', extra, EQUAL, ['ignored'])])


def recorded():
    """A small golden case, recorded."""
    target = folder('golden') / 'small'
    target.mkdir()
    shutil.copy(FAULTS / 'circ.yml', target / 'config.yml')
    expect(EQUAL, 'record', target, tool='ab_golden')
    return target


@case
def goldens():
    target = recorded()
    golden = target / 'golden.json'
    whole = golden.read_bytes()
    expect(EQUAL, target, says=['golden'])
    refuse('record', target, tool='ab_golden', says=['--reason'])
    check(golden.read_bytes() == whole, 'a golden was replaced without a reason')
    expect(EQUAL, target / 'config.yml', '--golden', golden, says=['golden'])
    rows = [('cut short', whole[:len(whole) // 2], []),
            ('its halves exchanged', whole[len(whole) // 2:] + whole[:len(whole) // 2], []),
            ('a merge conflict', whole.replace(b'  "metrics"', b'<<<<<<< HEAD\n  "metrics"', 1), ['merge conflict']),
            ('that of another case', (ROOT / 'golden/unpipelined/golden.json').read_bytes(), ['is stale: config key']),
            ('empty', b'', []),
            ('a list', b'[]', []),
            ('a newer schema', whole.replace(b'abpipe-golden/2', b'abpipe-golden/3'), ['abpipe-golden/3']),
            ('a key twice', whole.replace(b'{', b'{"schema": "abpipe-golden/2", ', 1), ['schema']),
            ('no JSON number', whole.replace(b'"steps"', b'"steps": 0x1, "x"', 1), [])]
    for what, text, says in rows:
        golden.write_bytes(text)
        r = expect(GOLDEN, target, '--no-pending', says=says)
        check('golden.json' in r.out + r.err, f'{what}: does not name the file: {r.out}{r.err}')
    golden.unlink()
    expect(GOLDEN, target, '--golden', golden, says=['golden.json'])
    golden.write_bytes(whole)
    expect(GOLDEN, target, 'learning_rate=0.5', says=['learning_rate'])
    expect(GOLDEN, target, 'max_target_length=4', says=['max_target_length'])
    check(golden.read_bytes() == whole, 'a comparison changed the golden')
    check(sorted(p.name for p in target.iterdir()) == ['config.yml', 'golden.json'], f'{list(target.iterdir())}')


@case
def a_golden_with_another_number_is_red():
    target = recorded()
    golden = target / 'golden.json'
    loss = json.loads(golden.read_text())['metrics'][0]
    check(loss['name'] == 'loss' and loss['step'] == 0, f'the first metric is {loss}')

    def other(value, bits):
        def change(whole):
            whole['metrics'][0]['number'] = {'value': value, 'bits': bits}
        return change
    change_golden(golden, other(2.5, '40200000'))
    expect(DIFFERENT, target, says=['step 0', 'loss', '2.5'])
    change_json(golden, other(2.5, '40200001'))
    expect(GOLDEN, target, says=['golden.json'])


main()
