#!/usr/bin/env python3
"""Writes tests/corpora/seeds/: small well-formed inputs for the fuzz targets whose format no public corpus has.

The golden of two leaves comes from tests/compare (ab_golden_text of its two sides); it is kept, not made here.
"""
import io
import json
import pathlib
import struct
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1] / 'corpora/seeds'
SIZES = {'F32': 4, 'F64': 8, 'I32': 4, 'I64': 8, 'U8': 1}


def write(target, name, data):
    folder = ROOT / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def safetensors(rows, metadata=None, blanks=0):
    header, data = ({'__metadata__': metadata} if metadata else {}), b''
    for name, dtype, shape in rows:
        count = 1
        for dim in shape:
            count *= dim
        begin = len(data)
        data += bytes(i * 37 % 256 for i in range(count * SIZES[dtype]))
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [begin, len(data)]}
    text = json.dumps(header).encode() + b' ' * blanks
    return struct.pack('<Q', len(text)) + text + data


def npy(descr, shape, data, order='False', version=1):
    head = f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}".encode()
    head += b' ' * (-(len(head) + 11) % 16) + b'\n'
    length = struct.pack('<H' if version == 1 else '<I', len(head))
    return b'\x93NUMPY' + bytes([version, 0]) + length + head + data


def npz(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, 'w', method) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return out.getvalue()


def text(value):
    return struct.pack('<I', len(value)) + value


def identity(step, layer, tensor, phase=0):
    return struct.pack('<5i', step, 0, 1, layer, phase) + text(tensor)


def where(bubble=0):
    return struct.pack('<4i', 5, 1, 0, bubble)


def tensor(shape, count):
    return (struct.pack('<2i', 0, len(shape)) + struct.pack(f'<{len(shape)}q', *shape)
            + struct.pack('<5Q3d', 1, 2, count, 0, 2, 1.5, -2.25, 0.1))


def frame(kind, payload):
    return struct.pack('<BH', kind, len(payload)) + payload


def frames(*rows):
    return b'\x4d' + b''.join(frame(kind, payload) for kind, payload in rows)


HEADER, PLAN, OBSERVATION, COUNTER, METRIC, FINGERPRINT, NOTE, ERROR, END = range(1, 10)
head = (HEADER, text(b'{"route": "linen"}'))
first = (OBSERVATION, identity(3, 0, b'query_proj') + where() + tensor([3, 7], 21))
second = (OBSERVATION, identity(3, 1, b'mlp/wo/kernel', 2) + where() + tensor([], 1))
bubble = (OBSERVATION, identity(3, 2, b'mlp/wo/kernel') + where(1) + tensor([2], 2))
count = (COUNTER, identity(0, 1, b'execute') + where() + struct.pack('<q', 2))
metric = (METRIC, struct.pack('<2id', 1, 1, 0.5) + text(b'loss'))
print_ = (FINGERPRINT, identity(0, 2, b'mlp/wo/kernel', 2) + tensor([2, 3], 6) + struct.pack('<Q', 7) + bytes(8 * 32))


def totals(*numbers):
    return END, struct.pack('<4Q', *numbers)


def main():
    write('safetensors', 'empty', safetensors([]))
    write('safetensors', 'two', safetensors([('a/kernel', 'F32', [2, 3]), ('b', 'I64', [2])], {'format': 'pt'}, 3))
    write('safetensors', 'each_dtype', safetensors([(d, d, [2]) for d in SIZES] + [('none', 'F32', [0, 3]),
                                                                                  ('scalar', 'F64', [])]))
    write('safetensors', 'rank8', safetensors([('deep', 'U8', [1, 1, 2, 1, 1, 3, 1, 1])]))
    write('safetensors', 'many', safetensors([(f'layer_{i}/kernel', 'U8', [1]) for i in range(40)]))
    floats = struct.pack('<6f', *range(6))
    write('npz', 'stored', npz({'a.npy': npy('<f4', '(2, 3)', floats), 'b.npy': npy('|u1', '()', b'\1')}))
    write('npz', 'deflated', npz({'a.npy': npy('<f4', '(2, 3)', floats, 'True'),
                                  'zeros.npy': npy('<i8', '(64,)', bytes(512))}, zipfile.ZIP_DEFLATED))
    write('npz', 'version2', npz({'x/y.npy': npy('<i4', '(2,)', bytes(8), version=2)}))
    write('npz', 'empty', npz({}))
    write('stream', 'all', frames(head, (PLAN, struct.pack('<Q', 1 << 40)), first, count, second, bubble, metric,
                                  print_, (NOTE, text(b'a note')), totals(3, 1, 1, 1)))
    write('stream', 'error', frames(head, first, (ERROR, struct.pack('<I', 3) + text(b'it broke') + text(b'a.c:1'))))
    write('stream', 'short', frames(head, totals(0, 0, 0, 0)))
    write('stream', 'twice', frames(head, first, first, totals(2, 0, 0, 0)))
    write('stream', 'raw', b'\x06abstream' + struct.pack('<I', 1) + struct.pack('<II', 1, 4) + b'\0\0\0\0' + bytes(8))
    write('map', 'each', b'# what a map may say\n(.*/)?layers/(.*) -> \\1layers_%d/\\2 unstack=1\n'
          b'token_(embedder)/embedding -> \\1 transpose\n[a-z]+.*|^w$ -> x/\\1\n\n(.*) -> \\1\n')
    write('map', 'wrong', b'a ->\n( -> x\na{1,9} -> b\n(a)\\1 -> b\n+ -> %d\n[[:alpha:]]*?$ -> c unstack=8\n')
    write('suite', 'three', b'about: three\ncases:\n  - {name: one, case: one, a: linen, b: nnx, overrides: [steps=1]}\n'
          b'  - name: two\n    skip: needs more\n  - {name: three, case: /nowhere/three.yml}\n')
    write('suite', 'wrong', b'cases:\n  - {name: a, case: x, skip: y}\n  - {name: a, cases: [1, {b: c}]}\n')
    write('bounds', 'manifest', json.dumps({'cases': [{'case': 'case', 'bounds': {
        'loss': {'rel': 1e-6}, 'gradients': {'layers/weights': {'rel_l2': 2e-6}}, 'outputs': {'rel_l2': 3e-6},
        'metrics': {'loss': {'rel': 1e-6}}}}, {'case': 'other'}]}).encode())
    write('bounds', 'engine', json.dumps({'loss': {'value': 1.5}, 'loss_sequential': {'value': 1.5000001}, 'compare': {
        'nnx_vs_sequential': {'layers/weights': {'rel_l2': 1e-7}, 'outputs': {'rel_l2': 1e300}}}}).encode())
    write('bounds', 'train', json.dumps({'steps': [], 'compare': {'sequential_vs_nnx': {
        'grads': {'layers/weights': {'rel_l2': 1e-7}}, 'params_final': {'layers/weights': {'rel_l2': -1}},
        'outputs': {}, 'metrics': {'loss': {'max_rel': 0}}}}}).encode())
    for kind in ('cell', 'sum'):
        write('artifact', kind, json.dumps({
            'schema': 'abpipe-artifact/2', 'kind': kind, 'wrong': 'b',
            'files': {'config.yml': 'c' * 32, 'inputs.safetensors': '1' * 32, 'recorded.safetensors': '2' * 32},
            'sides': {'a': 'linen', 'b': 'nnx', 'reference': 'sequential'},
            'numerics': 'portable', 'version': '0.1.0', 'fed': '', 'step': 0, 'microbatch': 1, 'layer': 2,
            'iteration': 3, 'stage': 0, 'repeat': 1, 'parts': 4, 'devices': 0, 'tensor': 'mlp/wo/kernel',
            'phase': 'backward'}).encode())
    write('overrides', 'numbers', b'steps=3\nlearning_rate=1e-3\nbase_emb_dim=64\nbase_num_decoder_layers=4\n')
    write('overrides', 'pipeline', b'ici_pipeline_parallelism=4\nnum_pipeline_microbatches=8\nenable_nnx=true\n'
          b'num_layers_per_pipeline_stage=1\npipeline_fsdp_ag_once=True\nscan_layers=false\n')
    write('overrides', 'lists', b'mlp_activations=[silu, linear]\nlogical_axis_rules=[["a", ["b", "c"]]]\n'
          b'upstream_faithful=[B1]\nrun_name="a: b"\n')
    write('overrides', 'words', b'decoder_block=simple_mlp\nremat_policy=custom\nquery_proj=device\ndtype=float32\n'
          b'opt_type=sgd\nlr_schedule_type=wsd\nmodel_name=default\n')
    write('overrides', 'wrong', b'steps\n=3\nstep=3\nsteps=[1,{a: b}]\nsteps=&a 1\nbase_config=x.yml\n')


if __name__ == '__main__':
    main()
