#!/usr/bin/env python3
"""ab_diff: two bundles, dumps or safetensors files."""
import json
import shutil
import struct
import zipfile

from e2e import (DIFFERENT, EQUAL, INCOMPARABLE, REFERENCE, ROOT, case, change_json, change_tensors, check, copy_case,
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
    expect(EQUAL, a, b, '--map', mapped(turned), says=['2 of 2 tensors, 10 of 10 elements'], **TOOL)
    for text, says in [('w1 -> v/1\n', "no line matches the tensor name 'w2'"),
                       ('w. -> v/1\n', "'w1' and 'w2' of"), ('w. -> v/1\n', "both become 'v/1'")]:
        expect(INCOMPARABLE, a, b, '--map', mapped(text), says=[says], **TOOL)
    for text, says in [('w1 v/1\n', "no ' -> '"), ('\nw( -> v\n', 'names.map:2'), ('w -> v sideways\n', 'unknown words'),
                       ('w -> v unstack=1\n', 'need each other'), ('w -> v_%d\n', 'need each other'),
                       ('w -> %s unstack=1\n', 'need each other')]:
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
def what_cannot_be_compared_at_all():
    a = BUNDLE / 'grads.safetensors'
    empty, broken = folder('empty'), folder() / 'broken.safetensors'
    broken.write_bytes(a.read_bytes()[:1000])
    for arguments, says in [((a, empty), 'nothing to compare'), ((a, broken), 'broken.safetensors'), ((a,), '1 paths'),
                            ((a, '/no/such'), '/no/such'), ((a, a, '--map', '/no/map'), '/no/map'),
                            ((a, a, '--bound', 'much'), 'much'), ((a, a, '--bound', '-1'), 'at least 0')]:
        refuse(*arguments, says=[says], **TOOL)
    long = made({'x' * 200: ([1], [1])})
    expect(INCOMPARABLE, long, long, says=['more than 95 bytes'], **TOOL)
    nothing = folder() / 'none.safetensors'
    write_tensors(nothing, {})
    expect(INCOMPARABLE, nothing, nothing, **TOOL)
    check((ROOT / 'configs/maps/nnx.map').is_file() and read_tensors(a), 'fixtures')


main()
