#!/usr/bin/env python3
"""./dev faults: builds every mutant, compares it with a clean build, and judges what the report says.

run.py [NAME ...] [--build DIR] [--scratch DIR] [--jobs N] [--ninja-jobs N] [--keep] | --clean N [--seed S] [--jobs N]

A mutant is built in a scratch copy of the tree, in which one patch at a time is applied, built and taken back. All
faults together write docs/faults.md. Exit 1 when a bar is missed or a patch does not apply.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile

import clean
import corpus
import loose
import table

COPIED = ('common', 'legacy', 'modern', 'dispatch', 'tools', 'configs', 'tests', 'golden', 'docs', 'meson.build',
          'meson_options.txt', 'LICENSE')
LIMIT = 600  # seconds of one comparison


def say(text):
    print(text, file=sys.stderr, flush=True)


def files_below(top):
    return [top] if top.is_file() else [p for p in top.rglob('*') if p.is_file() and '__pycache__' not in p.parts]


class Scratch:
    """A copy of the tree with a build of its own."""

    def __init__(self, folder, ninja_jobs):
        self.tree, self.build, self.ninja_jobs = folder / 'tree', folder / 'build', ninja_jobs
        self.binary = self.build / 'tools' / 'ab_compare'

    def put(self, path):
        """A file as it is in the repository; untouched when it is so already."""
        source, to = corpus.ROOT / path, self.tree / path
        if to.is_file() and to.read_bytes() == source.read_bytes():
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)
        shutil.copymode(source, to)

    def begin(self):
        wanted = {p.relative_to(corpus.ROOT) for top in COPIED for p in files_below(corpus.ROOT / top)}
        for path in files_below(self.tree) if self.tree.exists() else []:
            if path.relative_to(self.tree) not in wanted:
                path.unlink()
        for path in wanted:
            self.put(path)
        if not (self.build / 'build.ninja').exists():
            run_or_fail(['meson', 'setup', str(self.build), str(self.tree)])
        self.compile()

    def compile(self):
        jobs = [f'-j{self.ninja_jobs}'] if self.ninja_jobs else []
        run_or_fail(['ninja', '-C', str(self.build), *jobs, 'tools/ab_compare'])

    def mutate(self, fault):
        problem = fault.apply(self.tree)
        if problem:
            raise RuntimeError(problem)
        self.compile()

    def restore(self, fault):
        for path in fault.files():
            self.put(path)


def run_or_fail(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f'{" ".join(command)} failed:\n{(done.stdout + done.stderr)[-3000:]}')


def compare(clean_binary, mutant, fault, mutant_side, folder):
    """One run of the clean tool; the exit code. The report and side A's dump go to the folder."""
    command = [str(clean_binary), *fault.case, '--a', fault.side, '--b', fault.side, '--allow-same',
               f'--{mutant_side}-bin', str(mutant), '--json', str(folder / f'{mutant_side}.json'), '--dump',
               str(folder / f'{mutant_side}.dump')]
    done = subprocess.run(command, capture_output=True, text=True, cwd=corpus.ROOT, timeout=LIMIT, check=False,
                          env=dict(os.environ, TMPDIR=str(folder)))
    return done.returncode, done.stdout + done.stderr


def explanations(node):
    """The ids of all explanations, wherever in the report they stand; 'none' is what a report says without one."""
    found = []
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else []:
        if key == 'explanations' and isinstance(value, list):
            found += [e['id'] for e in value if isinstance(e, dict) and e.get('id', 'none') != 'none']
        else:
            found += explanations(value)
    return list(dict.fromkeys(found))


def describe(finding):
    """A finding in the words of fault.yml."""
    if not finding:
        return 'none'
    words = [f'{k}={finding[k]}' for k in corpus.IDENTITY if finding[k] >= 0 or k == 'step']
    words += [f'{k}={finding[k]}' for k in corpus.WORDS]
    return ' '.join(words + [f'{k}={finding["at_b"][k]}' for k in corpus.WHERE if finding['at_b'][k] >= 0])


def place_right(fault, finding):
    if not finding or not fault.first:
        return not finding and not fault.first
    flat = {**finding, **finding['at_b']}
    return all(flat[k] == v for k, v in fault.first.items())


def judge(fault, code, report, maxtext_passes):
    pair = report['comparisons'][0] if report.get('comparisons') else {}
    finding = pair.get('first_divergence')
    found = explanations(report)
    wanted = fault.expect['explanation']
    caught = code == corpus.VERDICTS[fault.expect['verdict']]
    return {'fault': fault, 'code': code, 'caught': caught, 'place': caught and place_right(fault, finding),
            'explained': caught and (wanted in found if wanted != 'none' else not found),
            'first': describe(finding), 'explanations': found, 'loose': maxtext_passes}


def examine(fault, scratch, clean_binary, keep):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f'abpipe-{fault.name}-'))
    try:
        scratch.mutate(fault)
        code, text = compare(clean_binary, scratch.binary, fault, 'b', folder)
        if not (folder / 'b.json').exists():
            raise RuntimeError(f'{fault.name}: no report, exit {code}: {text[-2000:]}')
        compare(clean_binary, scratch.binary, fault, 'a', folder)
        dumps = folder / 'a.dump', folder / 'b.dump'  # the mutant's and the clean side's
        passed = loose.passes(*dumps) if all((d / 'grads.safetensors').exists() for d in dumps) else None
        return judge(fault, code, json.loads((folder / 'b.json').read_text()), passed)
    finally:
        scratch.restore(fault)
        if keep:
            say(f'{fault.name}: kept {folder}')
        else:
            shutil.rmtree(folder, ignore_errors=True)


def examine_all(faults, options):
    idle = queue.Queue()
    for i in range(options.jobs):
        scratch = Scratch(options.scratch / str(i), options.ninja_jobs)
        say(f'building a clean copy in {scratch.build}')
        scratch.begin()
        idle.put(scratch)

    def one(fault):
        scratch = idle.get()
        try:
            result = examine(fault, scratch, options.build / 'tools' / 'ab_compare', options.keep)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            result = {'fault': fault, 'error': str(error)}
        finally:
            idle.put(scratch)
        say(table.line(result))
        return result

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return list(pool.map(one, faults))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', help='beginnings of folder names; none: all')
    parser.add_argument('--build', type=pathlib.Path, default=corpus.ROOT / 'build', help='clean build')
    parser.add_argument('--scratch', type=pathlib.Path, default=corpus.ROOT / 'build-faults')
    parser.add_argument('--jobs', type=int, default=1, help='mutants at a time, each with a copy of the tree')
    parser.add_argument('--ninja-jobs', type=int, default=0, help='0: as many as there are cores')
    parser.add_argument('--keep', action='store_true', help='keep reports and dumps')
    parser.add_argument('--clean', type=int, metavar='N', help='N runs of clean builds instead: no alarm is allowed')
    parser.add_argument('--seed', type=int, default=1, help='of the clean runs')
    parser.add_argument('--first', type=int, default=0, help='number of the first clean run')
    options = parser.parse_args()
    options.build, options.scratch = options.build.resolve(), options.scratch.resolve()
    if options.clean:
        return clean.run(options.build / 'tools' / 'ab_compare', options.clean, options.seed, options.first,
                         options.jobs)
    try:
        faults = corpus.load(options.names)
    except corpus.Malformed as error:
        say(str(error))
        return 1
    results = examine_all(faults, options)
    problems = table.problems(results)
    if not options.names:
        (corpus.ROOT / 'docs' / 'faults.md').write_text(table.page(results))
    print('\n'.join(table.totals(results) + problems))
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
