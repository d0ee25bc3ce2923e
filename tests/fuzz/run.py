#!/usr/bin/env python3
"""./dev fuzz --hours H [--target T]: libFuzzer on every target in turn, H hours in all.

Three quarters of the time goes to a build without sanitizers (build-fuzz-fast), which runs several times as many
inputs; then build-fuzz, with address and undefined-behaviour sanitizers, runs all that was learnt and goes on from
there. What a target has learnt stays in build-fuzz/corpus/<target>, its executions are summed in
build-fuzz/totals.json. A finding is written to build-fuzz/findings/: mend it, and keep its file in
tests/corpora/found/<target>/. Exit 1 when there was one.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPORA = ROOT / 'tests/corpora'
SEEDS = CORPORA / 'seeds'
TARGETS = {  # seeds, longest input
    'json': ([CORPORA / 'json'], 4096),
    'yaml': ([CORPORA / 'yaml'], 4096),
    'overrides': ([SEEDS / 'overrides'], 1024),
    'config': ([SEEDS / 'config', ROOT / 'configs/models'], 4096),
    'golden': ([SEEDS / 'golden'], 8192),
    'safetensors': ([SEEDS / 'safetensors'], 2048),
    'npz': ([SEEDS / 'npz'], 2048),
    'stream': ([SEEDS / 'stream'], 4096),
    'map': ([SEEDS / 'map', ROOT / 'configs/maps'], 1024),
    'suite': ([SEEDS / 'suite'], 2048),
    'bounds': ([SEEDS / 'bounds'], 2048),
    'artifact': ([SEEDS / 'artifact'], 2048),
}
MOST_FINDINGS = 10
LIMITS = ['-timeout=10', '-rss_limit_mb=2048', '-print_final_stats=1', '-reload=0', '-verbosity=1']


def run_once(build, programs, target, seconds):
    """Executions, and libFuzzer's exit code."""
    folders = [build / 'corpus' / target, build / 'findings']
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    seeds, longest = TARGETS[target]
    command = ['nice', programs / 'tests/fuzz' / f'fuzz_{target}', f'-max_total_time={max(1, round(seconds))}',
               f'-max_len={longest}', f'-artifact_prefix={folders[1]}/{target}-', *LIMITS,
               folders[0], *seeds, CORPORA / 'found' / target]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors='replace')
    (build / f'fuzz-{target}.log').write_text(done.stderr)
    count = re.search(r'stat::number_of_executed_units:\s*(\d+)', done.stderr)
    return int(count.group(1)) if count else 0, done.returncode, done.stderr


def remember(build, target, runs, seconds, sanitized):
    path = build / 'totals.json'
    totals = json.loads(path.read_text()) if path.exists() else {}
    row = {'executions': 0, 'sanitized': 0, 'seconds': 0} | totals.get(target, {})
    totals[target] = row
    row['executions'] += runs
    row['sanitized'] += runs if sanitized else 0
    row['seconds'] = round(row['seconds'] + seconds, 1)
    path.write_text(json.dumps(totals, indent=1, sort_keys=True) + '\n')
    return row['executions']


def fuzz(build, programs, target, seconds):
    """The number of findings."""
    findings, end = 0, time.monotonic() + seconds
    while findings < MOST_FINDINGS and end - time.monotonic() > 1:
        start = time.monotonic()
        runs, code, log = run_once(build, programs, target, end - start)
        took = time.monotonic() - start
        total = remember(build, target, runs, took, programs == build)
        print(f'{target}: {runs} executions, {runs / took:.0f} per second; {total} in all', flush=True)
        if code == 0:
            break
        findings += 1
        said = re.search(r'^(fuzz: .*|.*runtime error.*|.*ERROR: .*)$', log, re.M)
        where = re.search(r'Test unit written to (\S+)', log)
        print(f'{target}: FINDING: {said.group(1) if said else f"exit {code}"}\n  {where.group(1) if where else log[-500:]}',
              flush=True)
    return findings


def main():
    parser = argparse.ArgumentParser(prog='./dev fuzz')
    parser.add_argument('--hours', type=float, required=True)
    parser.add_argument('--target', choices=sorted(TARGETS), action='append')
    parser.add_argument('--build', type=pathlib.Path, default=ROOT / 'build-fuzz')
    parser.add_argument('--fast', type=pathlib.Path, default=ROOT / 'build-fuzz-fast')
    args = parser.parse_args()
    targets = args.target or list(TARGETS)
    parts = [(args.fast, 0.75), (args.build, 0.25)]
    findings = sum(fuzz(args.build, programs, target, share * args.hours * 3600 / len(targets))
                   for target in targets for programs, share in parts)
    print(f'{len(targets)} targets, {findings} findings')
    sys.exit(1 if findings else 0)


if __name__ == '__main__':
    main()
