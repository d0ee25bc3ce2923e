"""What MaxText's own bar would have said: |a - b| <= 0.2 + 0.1 |b| on outputs and gradients, 1e-2 on the loss.

tests/integration/pipeline_parallelism_test.py. Reads the bundles that ab_compare --dump writes.
"""
import array
import json
import pathlib
import struct

RTOL, ATOL, LOSS = 1e-1, 2e-1, 1e-2


def read_safetensors(path):
    """{name: array} of the float tensors of a file."""
    data = pathlib.Path(path).read_bytes()
    length, = struct.unpack_from('<Q', data)
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        code = {'F32': 'f', 'F64': 'd'}.get(entry.get('dtype'))
        if code:
            begin, end = entry['data_offsets']
            tensors[name] = array.array(code, data[8 + length + begin:8 + length + end])
    return tensors


def close(a, b, rtol, atol):
    return abs(a - b) <= atol + rtol * abs(b)  # NaN and infinity are close to nothing


def tensors_pass(mutant, clean):
    return mutant.keys() == clean.keys() and all(
        len(mutant[n]) == len(clean[n]) and all(map(lambda a, b: close(a, b, RTOL, ATOL), mutant[n], clean[n]))
        for n in clean)


def losses(folder):
    numbers = json.loads((folder / 'expected.json').read_text())
    values = [m['loss']['value'] for m in numbers.get('steps', [numbers]) if 'loss' in m]
    return [v if isinstance(v, (int, float)) else float('nan') for v in values]


def passes(mutant, clean):
    """Whether two dumps agree by that bar."""
    mutant, clean = pathlib.Path(mutant), pathlib.Path(clean)
    a, b = losses(mutant), losses(clean)
    if len(a) != len(b) or not all(map(lambda x, y: close(x, y, LOSS, LOSS), a, b)):
        return False
    return all(tensors_pass(read_safetensors(mutant / n), read_safetensors(clean / n))
               for n in ('grads.safetensors', 'outputs.safetensors') if (clean / n).exists())
