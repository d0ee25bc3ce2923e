"""Clean runs: random small configs, seeds and thread counts with clean builds on both sides. No alarm is allowed."""
import concurrent.futures
import os
import random
import pathlib
import shlex
import subprocess
import sys
import tempfile

import corpus

THREADS = 4
ROUTES = ('linen', 'nnx', 'linen+nnx-pipeline')
POLICIES = (
    'none', 'full', 'minimal', 'minimal_offloaded', 'minimal_with_context', 'minimal_flash',
    'minimal_with_quantization', 'minimal_with_context_and_quantization', 'save_dot_with_context_except_mlp',
    'save_dot_except_mlpwi', 'save_dot_except_mlp', 'save_qkv_proj', 'qkv_proj_offloaded', 'save_out_proj')


def word(value):
    return str(value).lower()


def pipeline(draw):
    """Stages, microbatches, repeats, layers per stage and the mode, as tests/sweep/test_numeric.c draws them."""
    stages = draw.randint(2, 4)
    microbatches = stages * draw.randint(1, 12 // stages)
    repeats, layers = draw.randint(1, 3), draw.randint(1, 3)
    delay = microbatches >= 2 * stages and draw.random() < 0.33
    per_repeat = repeats > 1 and not delay and draw.random() < 0.4
    layers = 1 if per_repeat else layers
    rows = draw.randint(1, 2)
    return {'ici_pipeline_parallelism': stages, 'num_pipeline_microbatches': microbatches,
            'num_pipeline_repeats': repeats, 'num_layers_per_pipeline_stage': layers,
            'pipeline_parallel_layers': stages * repeats * layers,
            'base_num_decoder_layers': stages * repeats * layers + draw.choice((0, 0, 1, 2)),
            'per_device_batch_size': float(microbatches * rows // stages),
            'pipeline_delay_activation_forwarding': word(delay), 'pipeline_fsdp_ag_per_repeat': word(per_repeat),
            'pipeline_fsdp_ag_once': word(not per_repeat and draw.random() < 0.2),
            'scan_layers_per_stage': word(layers > 1 and draw.random() < 0.5)}


def sizes(draw):
    kv_heads = draw.randint(1, 2)
    return {'base_emb_dim': 4 * draw.randint(2, 4), 'base_mlp_dim': draw.randint(16, 27),
            'base_num_kv_heads': kv_heads, 'base_num_query_heads': kv_heads * draw.randint(1, 3),
            'head_dim': 2 * draw.randint(1, 3), 'vocab_size': draw.randint(7, 46),
            'max_target_length': draw.randint(4, 10), 'max_segments_per_seq': draw.choice((-1, 2, 3))}


def training(draw):
    return {'dataset_type': 'synthetic', 'enable_checkpointing': 'false', 'steps': draw.randint(1, 2),
            'init_weights_seed': draw.randrange(1000), 'opt_type': draw.choice(('adamw', 'sgd')),
            'learning_rate': draw.choice(('3e-5', '0.01')), 'z_loss_multiplier': draw.choice(('0.0', '1e-4')),
            'gradient_clipping_threshold': draw.choice(('0.0', '0.1', '1.0')),
            'remat_policy': draw.choice(POLICIES),
            'set_remat_policy_on_pipeline_iterations': word(draw.random() < 0.75),
            'scan_pipeline_iterations': word(draw.random() < 0.75), 'ab_compute_bubbles': word(draw.random() < 0.5)}


def command(binary, seed, number):
    """The command of a run and the threads of its sides: they follow from seed and number alone."""
    draw = random.Random(f'{seed}/{number}')
    keys = {**pipeline(draw), **sizes(draw), **training(draw)}
    if keys['scan_pipeline_iterations'] == 'false' and keys['pipeline_fsdp_ag_per_repeat'] == 'true':
        keys['scan_pipeline_iterations'] = 'true'
    a, b = draw.choice(ROUTES), draw.choice(ROUTES)
    return [str(binary), 'configs/base.yml', *(f'{k}={v}' for k, v in keys.items()), '--a', a, '--b', b,
            '--allow-same'], [draw.randint(1, THREADS) for _ in 'ab']


def with_threads(binary, folder):
    """A program per thread count that runs the binary: each side gets threads of its own."""
    for threads in range(1, THREADS + 1):
        path = pathlib.Path(folder) / f'threads-{threads}'
        path.write_text(f'#!/bin/sh\nOMP_NUM_THREADS={threads} exec {shlex.quote(str(binary))} "$@"\n')
        path.chmod(0o755)


def run_one(binary, folder, seed, number):
    """'' or what went wrong."""
    arguments, threads = command(binary, seed, number)
    for side, count in zip('ab', threads):
        arguments += [f'--{side}-bin', f'{folder}/threads-{count}']
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=corpus.ROOT, check=False,
                          env=dict(os.environ, TMPDIR=folder, OMP_WAIT_POLICY='passive'))
    if done.returncode == 0:
        return ''
    return f'run {number}, exit {done.returncode}, threads {threads}: {" ".join(arguments)}\n' \
           f'{done.stdout[-1500:]}{done.stderr[-500:]}'


def run(binary, count, seed, first, jobs):
    alarms = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        with_threads(binary, folder)
        runs = pool.map(lambda n: run_one(binary, folder, seed, n), range(first, first + count))
        for done, problem in enumerate(runs, 1):
            alarms += bool(problem)
            if problem:
                print(problem, flush=True)
            if done % 50 == 0 or done == count:
                print(f'seed {seed}: {done} of {count} clean runs, {alarms} alarms', file=sys.stderr, flush=True)
    print(f'{count} clean runs from seed {seed}, numbers {first} to {first + count - 1}: {alarms} alarms')
    return 1 if alarms else 0
