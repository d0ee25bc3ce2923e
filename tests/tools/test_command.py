#!/usr/bin/env python3
"""The command line of ab_compare: what is accepted, what is refused, and what it prints and writes."""
import json
import os
import re
import resource
import subprocess

from e2e import (BUILD, EQUAL, LIMIT, ROOT, SMALL, USAGE, Run, case, change_json, check, copy_case, expect, folder,
                 main, refuse, run)

# MaxText's pull request for the NNX pipeline was tested with this command, and the model that fits a laptop.
PULL_REQUEST = '''model_name=llama2-7b dataset_type=synthetic steps=15 debug_sharding=true per_device_batch_size=2
max_target_length=32 ici_pipeline_parallelism=2 num_pipeline_microbatches=4 num_layers_per_pipeline_stage=2
enable_checkpointing=false enable_nnx=true pure_nnx_decoder=true scan_layers_per_stage=false async_checkpointing=false
run_name=nnx_pipeline base_output_directory=/tmp/nowhere'''.split()
SMALLER = '''override_model_config=true base_num_decoder_layers=8 base_emb_dim=128 base_num_query_heads=4
base_num_kv_heads=4 base_mlp_dim=256 head_dim=32 vocab_size=1024'''.split()


@case
def the_pull_requests_command_is_accepted_as_it_is():
    r = expect(EQUAL, 'configs/base.yml', *PULL_REQUEST, *SMALLER, '--steps', '2')
    check('2 of 2 steps' in r.out, f'{r}: {r.out}')
    check(not os.path.exists('/tmp/nowhere'), 'base_output_directory was created')


@case
def options_may_stand_anywhere():
    expect(EQUAL, '--steps', '1', 'configs/base.yml', *PULL_REQUEST, '--a', 'nnx', *SMALLER, '--b', 'sequential',
           says=['nnx against sequential'])


@case
def of_a_repeated_key_the_last_wins():
    r = expect(EQUAL, SMALL, 'steps=7', 'steps=2', 'steps=1')
    check('1 of 1 steps' in r.out, f'{r}: {r.out}')
    refuse(SMALL, 'steps=1', 'num_pipeline_microbatches=4', 'num_pipeline_microbatches=3',
           says=['num_pipeline_microbatches=3'])


@case
def the_full_model_is_refused_before_anything_is_allocated():
    r = expect(USAGE, 'configs/base.yml', *PULL_REQUEST, says=['memory'])
    _, _, usage = None, None, resource.getrusage(resource.RUSAGE_CHILDREN)
    sentence = next(line for line in (r.out + r.err).splitlines() if 'memory' in line)
    sizes = [int(n) for n in re.findall(r'\b(\d{7,})\b', sentence)]
    check(len(sizes) == 2, f'not both numbers: {sentence}')
    # Parameters, gradients and two moments of 6.7e9 parameters are 100 GB and more.
    check(sizes[0] > 100e9 and sizes[1] < sizes[0], f'sizes are {sizes}')
    # The largest process of this script so far, small cases included.
    check(usage.ru_maxrss < 1 << 20, f'a process grew to {usage.ru_maxrss} KiB')


@case
def an_address_space_limit_is_respected():
    limit = 600 << 20
    command = [str(BUILD / 'tools/ab_compare'), 'configs/base.yml', *PULL_REQUEST, *SMALLER, 'base_emb_dim=4096',
               'base_mlp_dim=8192', '--steps', '1']
    if 'address' in os.environ.get('AB_SANITIZERS', ''):
        return 'a sanitizer reserves terabytes of address space'
    p = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT,
                       preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    said = p.stdout + p.stderr
    check(p.returncode == USAGE and 'RLIMIT_AS' in said, f'exit {p.returncode}: {said[:500]}')


@case
def unsupported_and_unknown_values_are_refused_by_name():
    refuse(SMALL, 'dtype=bfloat16', says=['dtype=bfloat16', 'dtype=float32'])
    refuse(SMALL, 'weight_dtype=bfloat16', says=['weight_dtype'])
    refuse(SMALL, 'num_pipeline_microbatchs=4', says=["'num_pipeline_microbatchs'", "'num_pipeline_microbatches'"])
    refuse(SMALL, 'model_name=llama2-8b', says=['llama2-8b'])
    refuse(SMALL, 'pure_nnx_decoder=false', 'enable_nnx=true', says=['pure_nnx_decoder'])
    refuse(SMALL, 'pure_nnx_decoder=false', 'use_nnx_pipeline=true', says=['nnx+linen-decoder'])


@case
def a_default_that_is_not_supported_is_listed():
    r = expect(EQUAL, SMALL, '--steps', '1', '--verbose')
    check('Config param num_pipeline_microbatches: 4' in r.err, f'{r}: {r.err[:500]}')
    check('float32' in r.out and 'bfloat16' in r.out, f'{r}: the verdict does not tell the dtype')


@case
def routes():
    refuse(SMALL, '--a', 'linnen', says=["'linnen'", 'linen', 'nnx64', 'sequential'])
    refuse(SMALL, '--a', 'nnx', '--b', 'nnx', says=["'nnx'", '--allow-same'])
    expect(EQUAL, SMALL, '--steps', '1', '--a', 'nnx', '--b', 'nnx', '--allow-same', says=['nnx against nnx'])
    for target in (SMALL, 'tests/fixtures/reference/p04_llama2', 'tests/fixtures/reference/t16'):
        expect(EQUAL, target, '--a', 'linen64', '--b', 'nnx64', says=['linen64 against nnx64', 'against sequential64'])
    expect(EQUAL, SMALL, '--steps', '1', '--a', 'nnx', says=['nnx against linen'])
    expect(EQUAL, 'tests/fixtures/reference/e01_simple', '--a', 'linen-exact', '--b', 'nnx-exact',
           says=['linen-exact against sequential-exact: equal'])
    r = expect(EQUAL, '--list-routes')
    names = [line.split()[0] for line in r.out.splitlines()]
    check({'linen', 'linen64', 'linen+nnx-pipeline', 'nnx', 'nnx64', 'sequential', 'sequential64'} <= set(names), f'{names}')


@case
def the_flags_select_side_b():
    expect(EQUAL, SMALL, '--steps', '1', 'enable_nnx=true', 'pure_nnx_decoder=true', says=['linen against nnx'])
    expect(EQUAL, SMALL, '--steps', '1', 'enable_nnx=false', says=['linen against nnx'])
    expect(EQUAL, SMALL, '--steps', '1', 'enable_nnx=false', '--a', 'nnx', says=['nnx against linen'])
    expect(EQUAL, SMALL, '--steps', '1', 'use_nnx_pipeline=true', says=['linen against nnx'])
    expect(EQUAL, SMALL, '--steps', '1', 'use_nnx_pipeline=true', 'enable_nnx=false',
           says=['linen against linen+nnx-pipeline'])


@case
def numerics_and_devices():
    expect(EQUAL, SMALL, '--steps', '1', '--numerics', 'portable', says=['f32-portable'])
    refuse(SMALL, '--numerics', 'quick', says=['quick', 'fast or portable'])
    r = expect(EQUAL, SMALL, '--steps', '1', '--devices', '4', 'per_device_batch_size=2')
    check('1 of 1 steps' in r.out, f'{r}: {r.out}')
    refuse(SMALL, '--devices', '0', says=['--devices'])


@case
def wrong_words_are_refused():
    refuse(says=['CONFIG.yml'])
    refuse(SMALL, '--bogus', says=["'--bogus'"])
    refuse(SMALL, '--step', '1', says=["'--step'", '--steps'])
    refuse(SMALL, '--steps', says=['--steps'])
    refuse(SMALL, 'steps', says=["'steps'"])
    refuse('steps=2', says=["'steps=2'"])
    refuse('--guard', says=["'--guard'"])
    refuse(SMALL, '', says=['key=value'])
    refuse(SMALL, '=3', says=["'=3'"])


@case
def steps_must_be_some():
    for wrong in ('0', '-1', '1.5', 'x', '', '2147483648', '99999999999999999999'):
        refuse(SMALL, '--steps', wrong, says=[f"--steps is '{wrong}'", 'from 1 to 2147483647'])
    refuse(SMALL, '--steps', '3', says=['--steps is 3', '2 steps'])
    refuse(SMALL, 'steps=0', says=['steps'])
    refuse('tests/fixtures/reference/t16', '--steps', '5', says=['--steps is 5', '4 steps'])


@case
def impossible_pipelines_are_refused():
    rows = {'num_pipeline_microbatches=3': 'num_pipeline_microbatches',       # not a multiple of the stages
            'num_pipeline_microbatches=16': 'num_pipeline_microbatches',      # more than rows
            'num_pipeline_microbatches=0': 'num_pipeline_microbatches',
            'num_layers_per_pipeline_stage=3': 'pipeline_parallel_layers',    # layers do not divide
            'num_layers_per_pipeline_stage=0': 'num_layers_per_pipeline_stage',
            'num_pipeline_repeats=3': 'num_pipeline_repeats',                 # layers are not S K R
            'pipeline_parallel_layers=8': 'pipeline_parallel_layers',         # more than layers
            'pipeline_parallel_layers=3': 'pipeline_parallel_layers',
            'ici_pipeline_parallelism=3': 'pipeline',
            'ici_pipeline_parallelism=0': 'ici_pipeline_parallelism',
            'ici_pipeline_parallelism=-1': 'ici_pipeline_parallelism'}
    for override, name in rows.items():
        refuse(SMALL, override, says=[name])


@case
def help_and_version():
    r = expect(EQUAL, '--help')
    for option in ('--a', '--b', '--golden', '--numerics', '--json', '--dump', '--steps', '--devices', '--timeout',
                   '--list-routes', '--verbose', '--help', '--version', '--allow-same'):
        check(option in r.out, f'--help lacks {option}')
    check('--side' not in r.out, '--help shows what is not for people')
    check('exit codes' in r.out, '--help lacks the exit codes')
    check(run('--version').out.startswith('ab_compare 0.'), '--version')


@case
def the_verdict_comes_first_and_then_what_it_rests_on():
    r = expect(EQUAL, SMALL)
    lines = r.out.splitlines()
    check(len(lines) == 13, f'{len(lines)} lines: {r.out}')
    for number, begin in ((0, 'EQUAL'), (1, 'compared: '), (4, 'worst: '), (7, 'first divergence: '), (8, 'controls: '),
                          (9, 'unobserved: '), (10, 'blind to: '), (12, 'exit: 0')):
        check(lines[number].startswith(begin), f'line {number} is {lines[number]}')
    found = re.search(r'compared: (\d+) of (\d+) tensors, (\d+) of (\d+) elements, (\d+) of (\d+) metrics', lines[1])
    counts = [int(n) for n in found.groups()]
    check(counts[0::2] == counts[1::2] and min(counts) > 0, f'counts are {counts}')


@case
def the_command_of_a_report_repeats_the_run():
    first = expect(EQUAL, SMALL, 'run_name=it is $HOME', '--steps', '1', '--a', 'nnx')
    command = next(line for line in first.out.splitlines() if line.startswith('reproduce: '))[len('reproduce: '):]
    again = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False,
                           env=dict(os.environ, PATH=f'{BUILD}/tools:{os.environ["PATH"]}'))
    check(again.returncode == EQUAL and again.stdout == first.out, f'{command}: {again.stdout} {again.stderr}')


def structure(report, schema, at='report'):
    """What jsonschema would check first, for machines without it."""
    for key in schema['required']:
        check(key in report, f'{at} lacks {key}')
    for key in report:
        check(key in schema['properties'], f'{at} has an unknown key {key}')


def check_report(report):
    schema = json.loads((ROOT / 'docs/report.schema.json').read_text())
    try:
        import jsonschema
    except ImportError:
        structure(report, schema)
        for comparison in report['comparisons']:
            structure(comparison, schema['$defs']['comparison'], 'comparison')
        return
    jsonschema.validate(report, schema)


def agree(r, text, report):
    check_report(report)
    check(report['exit_code'] == r.code, f'exit code {report["exit_code"]} of the report, {r.code} of the process')
    check(text.startswith('EQUAL') == (r.code == EQUAL), f'verdict: {text[:80]}')
    check(f'cause: {report["cause"]}' in text, f'cause {report["cause"]} is not in {text[:200]}')
    check(report['command'] in text, 'the commands differ')


@case
def json_on_stdout_is_all_that_is_there():
    r = expect(EQUAL, SMALL, '--steps', '1', '--json', '-')
    report = json.loads(r.out)
    agree(r, run(SMALL, '--steps', '1').out, report)
    first = report['comparisons'][0]
    check(first['a'] == 'linen' and first['b'] == 'nnx', f'{first["a"]} against {first["b"]}')


def double_loss(expected):
    expected['loss']['value'] = 2 * expected['loss']['value']


@case
def a_red_report_agrees_with_its_text():
    target = copy_case('p01_llama2')
    change_json(target / 'expected.json', double_loss)
    file = folder() / 'report.json'
    r = expect(1, target, '--json', file, says=['DIFFERENT', 'loss', 'MaxText'])
    agree(r, r.out, json.loads(file.read_text()))


@case
def output_that_cannot_be_written_is_an_error():
    refused = expect(USAGE, SMALL, '--steps', '1', '--json', '/nonexistent/report.json')
    check("'/nonexistent" in refused.err, f'{refused}: {refused.err}')
    with open('/dev/full', 'w', encoding='utf-8') as full:
        for arguments in ([SMALL, '--steps', '1'], [SMALL, '--steps', '1', '--json', '-'], ['--help'], ['--version'],
                          ['--list-routes']):
            r = run(*arguments, stdout=full)
            check(r.code == USAGE and r.err, f'{r} > /dev/full: exit {r.code}, {r.err}')


@case
def a_closed_stdout_is_an_error_and_no_signal():
    r = Run(SMALL, '--steps', '1')
    r.process.stdout.close()
    r.process.stdout = open(os.devnull, encoding='utf-8')
    r.finish()
    check(r.code == USAGE, f'{r} with a closed pipe: exit {r.code}, {r.err}')


@case
def no_stdout_at_all_is_an_error():
    for arguments in [SMALL, '--steps', '1'], ['--version']:
        done = subprocess.run(['/bin/sh', '-c', 'exec "$0" "$@" >&-', BUILD / 'tools/ab_compare', *arguments], cwd=ROOT,
                              stderr=subprocess.PIPE, check=False)
        check(done.returncode == USAGE and done.stderr, f'{arguments}: exit {done.returncode}, {done.stderr}')


@case
def the_reader_of_a_pipe_may_stop_after_the_verdict():
    for target, code in ((SMALL, EQUAL), ('nowhere.yml', USAGE)):
        command = f'"{BUILD}/tools/ab_compare" {target} --steps 1 | head -1; exit ${{PIPESTATUS[0]}}'
        p = subprocess.run(['bash', '-c', command], cwd=ROOT, capture_output=True, text=True, check=False)
        check(p.returncode == code, f'{command}: exit {p.returncode}: {p.stdout}{p.stderr}')


@case
def a_dump_is_a_case_that_passes():
    for source in (SMALL, 'tests/fixtures/reference/t16', 'tests/fixtures/reference/p04_llama2'):
        target = folder() / 'dump'
        expect(EQUAL, source, '--dump', target)
        expect(EQUAL, target, says=['linen against bundle' if 'reference' in source else 'linen against'])
        before = {p.name: p.read_bytes() for p in target.iterdir()}
        expect(USAGE, source, '--dump', target, says=[str(target)])
        check(before == {p.name: p.read_bytes() for p in target.iterdir()}, f'{target} was overwritten')


@case
def a_dump_leaves_nothing_where_it_fails():
    place = folder()
    refuse(SMALL, '--a', 'linen64', '--b', 'nnx64', '--dump', place / 'wide', says=['linen64', 'float32'])
    taken = place / 'taken'
    taken.mkdir()
    (taken / 'mine.txt').write_text('mine')
    expect(USAGE, SMALL, '--steps', '1', '--dump', taken, says=[f"--dump '{taken}' is there and not empty"])
    expect(USAGE, SMALL, '--steps', '1', '--dump', taken / 'mine.txt')
    check([p.name for p in place.iterdir()] == ['taken'] and [p.name for p in taken.iterdir()] == ['mine.txt'],
          f'{list(place.iterdir())}')
    check((taken / 'mine.txt').read_text() == 'mine', 'a file was overwritten')


main()
