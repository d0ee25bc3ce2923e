#!/usr/bin/env python3
"""An example of a side for --a-cmd and --b-cmd: hands over recorded results of the case that it finds in $AB_IN.

usage: copy_side.py BUNDLE [TENSOR_FILE TENSOR FACTOR]

A real side would read config.yml, params.safetensors and batch.safetensors from $AB_IN and run $AB_STEPS steps. This one
copies the results of BUNDLE and, if asked, multiplies the first element of a tensor by FACTOR.
"""
import os
import pathlib
import shutil
import struct
import sys

from e2e import change_tensors

RESULTS = ['expected.json', 'grads.safetensors', 'outputs.safetensors', 'params_final.safetensors',
           'params_step1.safetensors']

inputs, outputs = pathlib.Path(os.environ['AB_IN']), pathlib.Path(os.environ['AB_OUT'])
bundle = pathlib.Path(sys.argv[1])
for name in 'config.yml', 'meta.json', 'params.safetensors', 'batch.safetensors':
    if not (inputs / name).is_file():
        sys.exit(f'{inputs} holds no {name}')
if (inputs / 'params.safetensors').stat().st_size == 0 or (inputs / 'expected.json').exists():
    sys.exit(f'{inputs} is not a bundle of inputs alone')
for name in RESULTS:
    if (bundle / name).exists():
        shutil.copy(bundle / name, outputs / name)

if len(sys.argv) > 2:
    def multiply(tensors):
        data = tensors[sys.argv[3]][2]
        data[:4] = struct.pack('<f', struct.unpack('<f', data[:4])[0] * float(sys.argv[4]))
    change_tensors(outputs / sys.argv[2], multiply)
