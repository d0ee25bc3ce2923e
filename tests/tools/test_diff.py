#!/usr/bin/env python3
"""ab_diff: two bundles, dumps or safetensors files."""
import json
import os
import shutil
import struct
import subprocess
import zipfile

from e2e import (BUILD, DIFFERENT, EQUAL, INCOMPARABLE, REFERENCE, ROOT, case, change_json, change_tensors, check, copy_case,
                 expect, folder, main, read_tensors, refuse, write_tensors)

TOOL = {'tool': 'ab_diff'}
BUNDLE = REFERENCE / 'p04_llama2'


def floats(*values):
    return bytearray(struct.pack(f'<{len(values)}f', *values))


def made(tensors, name='made.safetensors'):
    path = folder('diff') / name
    write_tensors(path, {key: ['F32', shape, floats(*values)] for key, (shape, values) in tensors.items()})
    return path


def mapped(text):
    path = folder('map') / 'names.map'
    path.write_text(text)
    return path


def same(tensors):
    pass


def one_ulp(tensors):
    data = next(iter(tensors.values()))[2]
    data[0] ^= 1


def not_a_number(tensors):
    next(iter(tensors.values()))[2][:4] = floats(float('nan'))


def renamed(tensors):
    tensors['other'] = tensors.pop(next(iter(tensors)))


def one_less(tensors):
    tensors.pop(next(iter(tensors)))


def reshaped(tensors):
    next(iter(tensors.values()))[1].insert(0, 1)


def retyped(tensors):
    next(iter(tensors.values()))[0] = 'I32'


@case
def what_differs_and_how():
    for change, bitwise, bounded, structure in [
            (same, EQUAL, EQUAL, EQUAL), (one_ulp, DIFFERENT, EQUAL, EQUAL), (not_a_number, DIFFERENT, DIFFERENT, EQUAL),
            (renamed, INCOMPARABLE, INCOMPARABLE, INCOMPARABLE), (one_less, INCOMPARABLE, INCOMPARABLE, INCOMPARABLE),
            (reshaped, INCOMPARABLE, INCOMPARABLE, INCOMPARABLE), (retyped, INCOMPARABLE, INCOMPARABLE, INCOMPARABLE)]:
        a, b = BUNDLE / 'grads.safetensors', folder() / 'grads.safetensors'
        shutil.copy(a, b)
        change_tensors(b, change)
        for pair in (a, b), (b, a):
            expect(bitwise, *pair, **TOOL)
            expect(bounded, *pair, '--bound', '1e-6', **TOOL)
            expect(structure, *pair, '--structure-only', **TOOL)


@case
def folders_with_their_metrics():
    other = copy_case('t01')
    r = expect(EQUAL, REFERENCE / 't01', other, '--json', '-', **TOOL)
    report = json.loads(r.out)
    counts = report['comparisons'][0]['counts']
    check(report['tool'] == 'ab_diff' and counts['tensors']['compared'] == counts['tensors']['expected'] > 60, f'{counts}')
    check(counts['metrics']['compared'] >= 15 and counts['unpinned'] == 0, f'{counts}')
    change_json(other / 'expected.json', lambda e: e['steps'][3]['loss'].update(value=1.5))
    expect(DIFFERENT, REFERENCE / 't01', other, says=['step 3 metric loss'], **TOOL)
    (other / 'grads.safetensors').unlink()
    expect(INCOMPARABLE, REFERENCE / 't01', other, says=['grads/'], **TOOL)


@case
def maps_that_ship():
    layers = {'decoder/layers/mlp/kernel': ([2, 3, 2], range(12)), 'decoder/layers/norm/scale': ([2, 3], range(6)),
              'decoder/norm/scale': ([2], [1, 2])}
    apart = {'decoder/norm/scale': ([2], [1, 2])}
    for i in range(3):
        apart[f'decoder/layers_{i}/mlp/kernel'] = ([2, 2], [6 * r + 2 * i + c for r in range(2) for c in range(2)])
        apart[f'decoder/layers_{i}/norm/scale'] = ([2], [i, 3 + i])
    expect(EQUAL, made(layers), made(apart), '--map', 'unscanned', says=['7 of 7 tensors'], **TOOL)
    apart['decoder/layers_1/mlp/kernel'][1][3] += 1
    expect(DIFFERENT, made(layers), made(apart), '--map', 'unscanned', says=['decoder/layers_1/mlp/kernel'], **TOOL)
    linen = made({'decoder/layers_per_stage/x/kernel': ([2], [1, 2]), 'decoder/norm/scale': ([1], [3])})
    nnx = made({'decoder/pipeline_module/layers/scanned_layers/x/kernel': ([2], [1, 2]), 'decoder/norm/scale': ([1], [3])})
    expect(EQUAL, linen, nnx, '--map', 'nnx', **TOOL)
    expect(EQUAL, nnx, linen, '--map', 'linen', **TOOL)
    expect(INCOMPARABLE, linen, nnx, says=['missing'], **TOOL)


@case
def maps_of_your_own():
    a = made({'w1': ([2, 3], range(6)), 'w2': ([2, 2], range(4))})
    b = made({'v/1': ([3, 2], [0, 3, 1, 4, 2, 5]), 'v/2': ([2, 2], range(4))})
    plain, turned = 'w([0-9]) -> v/\\1\n', '# the first is transposed\nw(1) -> v/\\1 transpose\nw(2) -> v/\\1\n'
    expect(INCOMPARABLE, a, b, '--map', mapped(plain), says=['axes of the other side in reverse, first v/1'], **TOOL)
    most = 'x+' * 8 + '(' * 91 + 'xx' + ')' * 91 + ' -> y\n'  # the longest expression, and the most lines
    expect(EQUAL, a, b, '--map', mapped(turned + '\\\\1 -> y\n' + most * 997), says=['2 of 2 tensors'], **TOOL)
    expect(EQUAL, a, b, '--map', mapped(turned), says=['2 of 2 tensors, 10 of 10 elements'], **TOOL)
    for text, says in [('w1 -> v/1\n', "no line matches the tensor name 'w2'"),
                       ('w(3*). -> \\1\n', "is empty or no UTF-8"), ('w. -> v/1\n', "'w1' and 'w2' of"),
                       ('w. -> v/1\n', "both become 'v/1'")]:
        expect(INCOMPARABLE, a, b, '--map', mapped(text), says=[says], **TOOL)
    for text, says in [('w1 v/1\n', "no ' -> '"), ('\nw( -> v\n', 'names.map:2'), ('w -> v sideways\n', 'unknown words'),
                       ('w -> v unstack=1\n', 'need each other'), ('w -> v_%d\n', 'need each other'),
                       ('w -> %s unstack=1\n', 'need each other'), ('w\x1b -> v\n', 'control characters'),
                       ('w{1,9} -> v\n', 'counts repetitions'), ('(w)\\1 -> v\n', 'refers back'),
                       ('x?y*z+' * 3 + ' -> v\n', 'more than 8 of * + ?'), ('(' * 201 + ' -> v\n', 'more than 200 bytes'),
                       ('w -> v\n' * 1001, 'names.map:1001: more than 1000 lines')]:
        refuse(a, b, '--map', mapped(text), says=[says], **TOOL)


def npy(values, shape, descr='<f4', fortran=False, code='f', version=1):
    header = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    size = '<H' if version == 1 else '<I'
    header += b' ' * (64 - (len(header) + 11) % 64) + b'\n'
    return (b'\x93NUMPY' + bytes([version, 0]) + struct.pack(size, len(header)) + header
            + struct.pack(f'<{len(values)}{code}', *values))


def npz(members, method=zipfile.ZIP_STORED):
    path = folder('npz') / 'made.npz'
    with zipfile.ZipFile(path, 'w', method) as archive:
        for name, data in members.items():
            with archive.open(name + '.npy', 'w', force_zip64=True) as member:
                member.write(data)
    return path


SAME = {'w': ([2, 3], range(6)), 'b': ([4000], [0.5] * 4000)}


@case
def numpy_archives():
    for method in zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED:
        for members in ({'w': npy(range(6), (2, 3)), 'b': npy([0.5] * 4000, '(4000,)', version=2)},
                        {'b': npy([0.5] * 4000, '(4000,)'), 'w': npy([0, 3, 1, 4, 2, 5], (2, 3), fortran=True)}):
            for pair in (made(SAME), npz(members, method)), (npz(members, method), made(SAME)):
                expect(EQUAL, *pair, says=['2 of 2 tensors, 4006 of 4006 elements'], **TOOL)
        off = {'w': npy([0, 1, 2, 3, 4, 6], (2, 3)), 'b': npy([0.5] * 4000, '(4000,)')}
        expect(DIFFERENT, made(SAME), npz(off, method), says=['at [1, 2]'], **TOOL)
    wide = {'w': npy(range(6), (2, 3), '<f8', code='d'), 'b': npy([0.5] * 4000, '(4000,)')}
    expect(INCOMPARABLE, made(SAME), npz(wide), says=['retyped', 'F64'], **TOOL)


@case
def numpy_archives_that_are_refused():
    for data, says in [(npy([1], '(1,)', '|O'), 'pickle'), (npy([1], '(1,)', '>f4'), 'another dtype'),
                       (npy([1], '(2,)'), 'another number of bytes'), (npy([1], '(-1,)'), 'shape'),
                       (npy([1], '(1,1,1,1,1,1,1,1,1)'), 'shape'), (b'hello, world, hello', 'is no .npy'),
                       (b'\x93NUMPY\x01\x00\xff\xff{}', 'does not fit')]:
        for method in zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED:
            refuse(made(SAME), npz({'w': data}, method), says=["'w", says], **TOOL)
    for method in zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED:
        good = npz({'w': npy([float(i) for i in range(3000)], '(3000,)')}, method)
        whole = good.read_bytes()
        for at in 2000, len(whole) - 10, len(whole) - 56:  # data, place of the directory, checksum
            good.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:])
            refuse(good, good, says=['made.npz'], **TOOL)
        for size in 0, 10, 1000, len(whole) - 1:
            good.write_bytes(whole[:size])
            refuse(good, good, says=['made.npz'], **TOOL)


@case
def the_same_nan_in_both_is_no_agreement_and_no_ones_fault():
    nan, inf = float('nan'), float('inf')
    for values in ([1, nan, 3], [inf, -inf, nan], [nan] * 3):
        r = expect(DIFFERENT, made({'w': ([3], values)}), made({'w': ([3], values)}), says=[
            'cause: not finite', 'hold the same NaN or infinity, first step 0 w forward',
            ' values are NaN or infinite: they are equal to nothing, not even to themselves'], **TOOL)
        check('undecided' not in r.out, r.out)
    for other in ([nan, 2, 3], [1, inf, 3], [1, nan, 4]):
        r = expect(DIFFERENT, made({'w': ([3], [1, nan, 3])}), made({'w': ([3], other)}),
                   says=['cause: undecided', 'values are NaN or infinite'], **TOOL)
    r = expect(EQUAL, made(SAME), made(SAME), **TOOL)
    check('NaN' not in r.out, r.out)


@case
def tensors_without_elements():
    nothing, some = made({'w': ([0, 4], [])}), made({'w': ([0, 4], []), 'v': ([1], [1])})
    expect(INCOMPARABLE, nothing, nothing, says=['cause: structure differs', 'nothing could be compared: no tensor has an element'],
           **TOOL)
    expect(EQUAL, nothing, nothing, '--structure-only', says=['no value was read'], **TOOL)
    expect(EQUAL, some, some, says=['1 of 2 tensors has no element: only its shape and dtype were compared, first w'],
           **TOOL)
    expect(INCOMPARABLE, nothing, made({'w': ([0, 3], [])}), says=['reshaped'], **TOOL)


@case
def an_axis_that_is_not_there_cannot_be_unstacked():
    for shape, values, axis in ([2, 3], range(6), 5), ([2, 3], range(6), 2), ([3], range(3), 1), ([], [1], 0):
        stacked = made({'w': (shape, values)})
        r = expect(INCOMPARABLE, stacked, stacked, '--map', mapped(f'w -> w_%d unstack={axis}\n'), says=[
            f"the map unstacks tensor 'w' along axis {axis}, but it has rank {len(shape)}; expected at least {axis + 1}"],
            **TOOL)
        check(r.out.count('rank') == 1, r.out)
    none = made({'w': ([3, 0], []), 'v_0': ([1], [1])})
    expect(INCOMPARABLE, none, made({'v_0': ([1], [1])}), '--map', mapped('w -> w_%d unstack=1\nv_0 -> v_0\n'),
           says=["the map unstacks tensor 'w' along axis 1, which has no entry"], **TOOL)
    expect(INCOMPARABLE, made({'w': ([2, 3], range(6))}), made({f'w_{i}': ([2], [i, 3 + i]) for i in range(4)}),
           '--map', mapped('w -> w_%d unstack=1\n'), says=['missing w_3'], **TOOL)


BLOCK = 128 * 1024 // 4  # elements that ab_diff reads at once


def dump(values, dtype='F32'):
    path = folder('dump') / 'dump.safetensors'
    code = {'F32': 'f', 'F64': 'd'}[dtype]
    write_tensors(path, {'first': [dtype, [3], bytearray(struct.pack(f'<3{code}', 1, 2, 3))],
                         'large': [dtype, [len(values)], bytearray(struct.pack(f'<{len(values)}{code}', *values))],
                         'none': [dtype, [0, 4], bytearray()]})
    return path


def elements(code, *arguments):
    report = json.loads(expect(code, *arguments, '--json', '-', **TOOL).out)
    return report['comparisons'][0], report['comparisons'][0]['worst']['elements']


@case
def tensors_of_many_blocks():
    for count in BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1:
        values = [1.0 + i % 7 for i in range(count)]
        same = dump(values)
        verdict, none = elements(EQUAL, same, dump(values))
        check(none is None and verdict['counts']['elements'] == {'expected': count + 3, 'compared': count + 3}, str(verdict))
        for at in {0, min(BLOCK, count - 1), count - 1}:
            values[at] += 0.5
            verdict, found = elements(DIFFERENT, dump(values), same)
            check(found['count'] == count and found['differing'] == 1 and found['max_abs'] == 0.5, str(found))
            check(found['worst']['index'] == found['first']['index'] == at, f"{at}: {found['worst']}")
            norm = sum((1.0 + i % 7) ** 2 for i in range(count)) ** 0.5  # integers: no rounding in the sum
            check(found['l2'] == 0.5 and found['l2_b'] == norm, f"{found['l2']} {found['l2_b']} {norm}")
            values[at] -= 0.5


@case
def what_is_not_finite_in_any_block():
    values = [1.0] * (2 * BLOCK + 1)
    clean = dump(values)
    for odd, at in [(float('nan'), 0), (float('inf'), BLOCK - 1), (float('nan'), BLOCK), (float('nan'), 2 * BLOCK)]:
        values[at] = odd
        bad = dump(values)
        values[at] = 1.0
        for pair, nonfinite in ((bad, bad), 2), ((bad, clean), 1), ((clean, bad), 1):
            verdict, found = elements(DIFFERENT, *pair, '--bound', '1e-3')
            check(verdict['nonfinite'] == nonfinite and found['worst']['index'] == at, str(verdict))


@case
def zeros_of_both_signs():
    a, b = [0.0] * (BLOCK + 9), [0.0] * (BLOCK + 9)
    a[3] = b[BLOCK + 4] = b[5] = -0.0
    verdict, _ = elements(EQUAL, dump(a), dump(b))
    check(verdict['sign_only'] == 3 and verdict['differing_elements'] == 0, str(verdict))


@case
def the_summary_says_what_was_compared():
    def one(descr, value):
        path = folder('one') / 'one.safetensors'
        write_tensors(path, {'w': [descr, [1], bytearray(struct.pack({'F32': '<f', 'I32': '<i', 'I64': '<q'}[descr], value))]})
        return path

    r = expect(EQUAL, one('F32', 0.0), one('F32', -0.0), says=['nothing differs but the sign of zero, in 1 elements'], **TOOL)
    check('any bit' not in r.out, r.out)
    large = 2 ** 53
    expect(DIFFERENT, one('I64', large + 1), one('I64', large), says=[f' {large + 1} (0x0', f' {large} (0x0'], **TOOL)
    expect(DIFFERENT, one('I32', -2), one('I32', 7), says=[' -2 (0xfffffffe)', ' 7 (0x0'], **TOOL)
    _, found = elements(DIFFERENT, one('I64', -large - 1), one('I64', large + 1))
    check((found['worst']['a']['value'], found['worst']['b']['value']) == (-large - 1, large + 1), str(found))
    r = expect(EQUAL, one('F32', 1), one('F32', 2), '--structure-only', says=[
        'compared: name, shape and dtype of 1 of 1 tensors\n', 'worst: no value was read'], **TOOL)
    check('any bit' not in r.out and 'elements' not in r.out, r.out)
    verdict, _ = elements(EQUAL, one('F32', 1), one('F32', 2), '--structure-only')
    check(verdict['counts']['elements'] == {'expected': 0, 'compared': 0}, str(verdict['counts']))


@case
def squares_beyond_the_range_of_doubles():
    count = BLOCK + 5  # of which a block holds half
    a, b = [1e200] * count, [1e200] * count
    a[0] = 2e200
    a[-1] = -1e200
    verdict, found = elements(DIFFERENT, dump(a, 'F64'), dump(b, 'F64'))
    check(abs(found['rel_l2'] / (5 / count) ** 0.5 - 1) < 1e-12 and found['differing'] == 2, str(found))
    check(abs(found['l2_b'] / 1e200 / count ** 0.5 - 1) < 1e-12 and found['worst']['index'] == count - 1, str(found))


@case
def a_large_tensor_needs_little_memory():
    path, size = folder('sparse') / 'large.safetensors', 512 << 20
    header = json.dumps({'t': {'dtype': 'F32', 'shape': [size // 4], 'data_offsets': [0, size]}}).encode()
    with open(path, 'wb') as file:  # a hole: nothing but zeros
        file.write(struct.pack('<Q', len(header)) + header)
        file.truncate(8 + len(header) + size)
    process = subprocess.Popen([BUILD / 'tools/ab_diff', path, path], stdout=subprocess.PIPE, text=True)
    said = process.stdout.read()
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    check(process.returncode == EQUAL and f'{size // 4} of {size // 4} elements' in said, said)
    check(usage.ru_maxrss << 10 < size // 2, f'{usage.ru_maxrss} KiB of memory for two tensors of {size >> 10} KiB')


@case
def metrics_however_they_are_spelled():
    def side(expected):
        path = made({'w': ([1], [1])}).parent
        (path / 'expected.json').write_text(expected if isinstance(expected, str) else json.dumps(expected))
        return path

    steps, value = [{'loss': 1}, {'loss': 2}], {'value': 1.0}
    for a, b, code, says in [
            ({'loss': 1.0}, {'loss': 1}, EQUAL, '1 of 1 metrics'), ({'loss': 1.0}, {'loss': 7}, DIFFERENT, 'metric loss'),
            ({'loss': 1.0}, {'loss': value}, EQUAL, '1 of 1 metrics'), ({'steps': steps}, {'steps': steps}, EQUAL, '2 of 2 metrics'),
            ({'steps': steps}, {'steps': steps[:1]}, INCOMPARABLE, 'structure'),
            ({'steps': steps[:1]}, {'steps': steps}, INCOMPARABLE, 'missing metric loss (1)'),
            ({'steps': [], 'loss': 1}, {'steps': [], 'loss': 2}, DIFFERENT, 'metric loss'),
            ({'loss': {'nonfinite': 'inf'}}, {'loss': 1}, DIFFERENT, 'metric loss'),
            ({'loss': 1}, {'loss': 1, 'note': 'none', 'gradients': {'w': {'l2': 1}}}, EQUAL, '1 of 1 metrics'),
            ({'loss': value}, {'loss': {'value': 1.00000000001}}, DIFFERENT, 'metric loss'),
            ({'loss': 1e300}, {'loss': 1e300}, EQUAL, '1 of 1 metrics')]:
        expect(code, side(a), side(b), says=[says], **TOOL)
    for wrong, says in [('[]', 'is an array'), ('"x"', 'is a string'), ({'steps': 5}, "'steps' is a number, expected an array"),
                        ({'steps': {'a': 1}}, "'steps' is an object"), ({'steps': [5]}, "'steps[0]' is a number"),
                        ({'steps': [{'loss': 1}, {}]}, "'steps[1]' is empty, expected one metric"),
                        ({'steps': [{'loss': 'x'}]}, "'steps[0].loss' is a string, expected a number"),
                        ({'steps': [{'a': {'valu': 1}}]}, "'steps[0].a' is an object without a value"),
                        ({'loss': None}, "'loss' is null"), ({'loss': {'value': '1'}}, "'loss.value' is a string"),
                        ({'loss': 1, 'steps': [{'loss': 1}]}, "loss' is a metric of step 0 once more")]:
        for pair in (side(wrong), side({'loss': 1})), (side({'loss': 1}), side(wrong)):
            refuse(*pair, says=['expected.json', says], **TOOL)


@case
def maps_that_take_apart_along_the_first_axis():
    rows, columns = 3, BLOCK // 2 + 1
    values = [float(i) for i in range(rows * columns)]
    apart = {f'w_{r}': ([columns], values[r * columns:(r + 1) * columns]) for r in range(rows)}
    names = mapped('w -> w_%d unstack=0\n')
    stacked = made({'w': ([rows, columns], values)})
    expect(EQUAL, stacked, made(apart), '--map', names, says=['3 of 3 tensors'], **TOOL)
    apart['w_2'][1][-1] += 1
    expect(DIFFERENT, stacked, made(apart), '--map', names, says=['w_2'], **TOOL)
    many = made({'w': ([10 ** 9, 0], [])})
    refuse(many, many, '--map', mapped('# layers\nw -> w_%d unstack=0\n'), says=[
        "names.map:2 unstacks tensor 'w' along axis 0 into 1000000000 beside 0 others; expected at most 1000000"], **TOOL)


@case
def what_cannot_be_compared_at_all():
    a = BUNDLE / 'grads.safetensors'
    empty, broken = folder('empty'), folder() / 'broken.safetensors'
    broken.write_bytes(a.read_bytes()[:1000])
    for arguments, says in [((a, empty), 'nothing to compare'), ((a, broken), 'broken.safetensors'), ((a,), '1 paths'),
                            ((a, '/no/such'), '/no/such'), ((a, a, '--map', '/no/map'), '/no/map'),
                            ((a, a, '--bound', 'much'), 'much'), ((a, a, '--bound', '-1'), 'from 0 to 0.001'),
                            ((a, a, '--bound', '0.0011'), 'from 0 to 0.001')]:
        refuse(*arguments, says=[says], **TOOL)
    long = made({'x' * 200: ([1], [1])})
    expect(INCOMPARABLE, long, long, says=['more than 95 bytes'], **TOOL)
    nothing = folder() / 'none.safetensors'
    write_tensors(nothing, {})
    expect(INCOMPARABLE, nothing, nothing, **TOOL)
    check((ROOT / 'configs/maps/nnx.map').is_file() and read_tensors(a), 'fixtures')


main()
