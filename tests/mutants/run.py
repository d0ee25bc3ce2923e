#!/usr/bin/env python3
"""./dev mutants: changes one place of a C file at a time and asks the tests that cover the file.

run.py [FILE ...] [--sample N] [--seed S] [--named LIST] [--only TEXT] [--gross] [--units] [--script NAME] [--jobs N]
       [--first N] [--scratch DIR] [--json FILE] [--again] [--list] [--counts]

A mutant that does not compile, or whose object file is the same, is none. It is killed when a test is red, crashes or
takes too long, and survives when all are green. A survivor must stand in survivors.txt with a reason; exit 1 otherwise,
2 when nothing could be said. Results are kept in the JSON file, and a second run goes on where the first ended; --again
asks the survivors in it once more. --counts prints `killed survived 0 mutants` alone, for ./dev check-all.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import pathlib
import queue
import random
import signal
import sys
import threading
import time

import coverage
import operators
import scratch
import together

HERE = pathlib.Path(__file__).resolve().parent
VERDICT = ('common/compare/verdict.c', 'common/compare/judge.c', 'common/compare/tiers.c', 'common/compare/metrics.c',
           'common/compare/cause.c', 'common/compare/exitcode.c', 'common/compare/golden_compare.c',
           'common/compare/recording.c', 'common/compare/calibration.c', 'common/compare/distance.c',
           'common/compare/fingerprint.c', 'common/compare/identity.c')
# An inverted comparison, off by one, a swallowed NaN, a skipped leaf, a wrong unit.
GROSS = ('compare', 'negation', 'off by one', 'check', 'word', 'skipped last', 'unit')
SLACK, LEAST = 10, 20  # a test takes too long at ten times what it took before, at least 20 s


def say(text):
    print(text, file=sys.stderr, flush=True)


def waivers():
    """{name: reason}: a line is a mutant's name, the indented line below it the reason."""
    found, name = {}, None
    for line in (HERE / 'survivors.txt').read_text().splitlines():
        if not line.strip() or line.startswith('#'):
            continue
        if line.startswith('  ') and name:
            found[name] = line.strip()
        else:
            name = line.rstrip()
            found[name] = ''
    return found


class Results:
    """The JSON file: what is known of each mutant, as long as its source is the same."""

    def __init__(self, path, again, files):
        self.path, self.lock = path, threading.Lock()
        self.known = json.loads(path.read_text()) if path.exists() else {}
        if again:
            self.known = {k: v for k, v in self.known.items() if v['state'] != 'survived' or v['file'] not in files}

    def get(self, mutant, source):
        row = self.known.get(mutant.name)
        return row if row and row['source'] == source else None

    def put(self, mutant, source, state, by):
        with self.lock:
            self.known[mutant.name] = {'file': mutant.file, 'line': mutant.line, 'operator': mutant.op,
                                       'old': mutant.old, 'new': mutant.new, 'source': source, 'state': state, 'by': by}
            if len(self.known) % 20 == 0:
                self.save()

    def save(self):
        temporary = self.path.with_suffix('.tmp')
        temporary.write_text(json.dumps(self.known, indent=1, sort_keys=True))
        os.replace(temporary, self.path)


class Worker:
    def __init__(self, folder):
        self.scratch, self.limits, self.clean, self.together = scratch.Scratch(folder), {}, {}, {}
        self.checked = set()
        self.scratch.begin()

    def limit(self, test):
        """The time limit of a script, from a run without a mutant, which must be green."""
        if test not in self.limits:
            self.scratch.ninja(*self.scratch.test_targets(test))
            start = time.monotonic()
            if not self.scratch.passes(test, 600):
                raise RuntimeError(f'{test} is red without a mutant')
            self.limits[test] = max(LEAST, SLACK * (time.monotonic() - start))
        return self.limits[test]

    def prepare(self, file, source, units, scripts):
        """All tests are green, and the object file without a mutant is known."""
        key = tuple(sorted(units))
        path = self.scratch.tree / file
        if path.read_text() != source:
            path.write_text(source)
        for script in scripts:
            self.limit(script)
        if file not in self.clean:
            self.scratch.ninja(*self.scratch.objects[file])
            self.clean[file] = self.scratch.objects_of(file)
        if units and key not in self.together:
            self.together[key] = together.Together(self.scratch, list(units))
        if units and file not in self.checked:
            start = time.monotonic()
            red = self.together[key].first_red(units, 600)
            if red:
                raise RuntimeError(f'{red} is red without a mutant')
            self.limits[key] = max(LEAST, SLACK * (time.monotonic() - start))
            self.checked.add(file)
        return key

    def compiles(self, file, key):
        if key in self.together and len(self.scratch.objects[file]) == 1:
            return self.together[key].compiles(file)
        return self.scratch.ninja(*self.scratch.objects[file])[0]

    def judge(self, mutant, source, units, scripts):
        """(state, the test that killed it)."""
        key = self.prepare(mutant.file, source, units, scripts)
        path = self.scratch.tree / mutant.file
        path.write_text(mutant.apply(source))
        try:
            if not self.compiles(mutant.file, key):
                return 'stillborn', ''
            if self.scratch.objects_of(mutant.file) == self.clean[mutant.file]:
                return 'same', ''
            red = self.together[key].first_red(units, self.limits[key]) if units else None
            for script in scripts if not red else ():
                if not self.scratch.passes(script, self.limits[script]):
                    red = script
                    break
            return ('killed', red) if red else ('survived', '')
        finally:
            path.write_text(source)
            self.scratch.put_back(mutant.file, self.clean[mutant.file])


def sources_of(names):
    paths = names or VERDICT
    return {str(pathlib.Path(p)): (scratch.ROOT / p).read_text() for p in paths}


def choose(args):
    """[(mutant, source text)] in a fixed order."""
    if args.named:
        wanted = [l.rstrip('\n') for l in args.named.read_text().splitlines() if l.strip() and not l.startswith('#')]
        sources = sources_of(sorted({w.split(': ', 1)[0] for w in wanted}))
        known = {m.name: m for f, s in sources.items() for m in operators.mutants_of(f, s)}
        lost = [w for w in wanted if w not in known]
        if lost:
            raise RuntimeError('no such mutant any more; choose another:\n' + '\n'.join(lost))
        return [(known[w], sources[known[w].file]) for w in wanted]
    chosen = []
    for file, source in sources_of(args.files).items():
        found = [m for m in operators.mutants_of(file, source) if args.only in m.name]
        if args.gross:
            found = [m for m in found if m.op in GROSS]
        if args.sample and args.sample < len(found):
            kept = set(random.Random(f'{args.seed} {file}').sample(range(len(found)), args.sample))
            found = [m for i, m in enumerate(found) if i in kept]
        chosen += [(m, source) for m in found]
    return chosen


def run_all(args, chosen, results):
    pool = queue.Queue()
    for i in range(args.jobs):
        pool.put(Worker(args.scratch / f'w{args.first + i}'))

    def one(pair):
        mutant, source = pair
        digest = hashlib.sha256(source.encode()).hexdigest()[:16]
        row = results.get(mutant, digest)
        if row:
            return row['state'], row['by']
        worker = pool.get()
        try:
            units, scripts = coverage.tests_of(mutant.file, worker.scratch.tests)
            scripts = [] if args.units else [s for s in scripts if not args.script or s in args.script]
            if not units + scripts:
                raise RuntimeError(f'no test covers {mutant.file}')
            state, by = worker.judge(mutant, source, units, scripts)
        finally:
            pool.put(worker)
        results.put(mutant, digest, state, by)
        if state == 'survived':
            say(f'survived: {mutant.file}:{mutant.line}: {mutant.op}\n  - {mutant.old}\n  + {mutant.new}')
        return state, by

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as threads:
        try:
            return list(threads.map(one, chosen))
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def report(chosen, states, out):
    """The figures per file; the number of survivors that no line of survivors.txt explains."""
    waived, rows, open_ones = waivers(), collections.defaultdict(collections.Counter), []
    for (mutant, _), (state, _) in zip(chosen, states):
        rows[mutant.file][state] += 1
        if state == 'survived' and not waived.get(mutant.name):
            open_ones.append(mutant)
        elif state == 'survived':
            rows[mutant.file]['waived'] += 1
    print(f'{"file":40} {"made":>6} {"compiled":>9} {"same":>6} {"killed":>7} {"survived":>9} {"with a reason":>14}',
          file=out)
    total = sum(rows.values(), collections.Counter())
    for file, n in [*rows.items(), ('all', total)]:
        made = n['stillborn'] + n['same'] + n['killed'] + n['survived']
        print(f'{file:40} {made:6} {made - n["stillborn"]:9} {n["same"]:6} {n["killed"]:7} {n["survived"]:9} '
              f'{n["waived"]:14}', file=out)
    for m in open_ones:
        print(f'survivor without a reason: {m.file}:{m.line}\n{m.name}', file=out)
    return len(open_ones)


def main():
    parser = argparse.ArgumentParser(prog='./dev mutants')
    parser.add_argument('files', nargs='*', metavar='FILE')
    parser.add_argument('--sample', type=int, default=0, help='of each file at most this many')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--named', type=pathlib.Path, help='mutants by name, from a file')
    parser.add_argument('--only', default='', help='mutants whose name has this text')
    parser.add_argument('--gross', action='store_true', help=f'only these operators: {", ".join(GROSS)}')
    parser.add_argument('--units', action='store_true', help='unit tests only')
    parser.add_argument('--script', action='append', help='only this one of the scripts; may be repeated')
    parser.add_argument('--jobs', type=int, default=1)
    parser.add_argument('--nice', type=int, default=10)
    parser.add_argument('--first', type=int, default=0, help='number of the first scratch copy: two runs side by side')
    parser.add_argument('--scratch', type=pathlib.Path, default=pathlib.Path('/tmp/abpipe-mutants'))
    parser.add_argument('--json', type=pathlib.Path)
    parser.add_argument('--again', action='store_true')
    parser.add_argument('--list', action='store_true', help='names only')
    parser.add_argument('--counts', action='store_true', help='for ./dev check-all')
    args = parser.parse_args()
    os.nice(args.nice)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    args.scratch.mkdir(parents=True, exist_ok=True)
    chosen = choose(args)
    if args.list:
        print('\n'.join(m.name for m, _ in chosen))
        return 0
    results = Results(args.json or args.scratch / 'results.json', args.again, {m.file for m, _ in chosen})
    try:
        states = run_all(args, chosen, results)
    finally:
        results.save()
    survivors = report(chosen, states, sys.stderr if args.counts else sys.stdout)
    if args.counts:
        print(len(chosen) - survivors, survivors, 0, 'mutants')
    return 1 if survivors and not args.counts else 0


if __name__ == '__main__':
    try:
        sys.exit(main())
    except (RuntimeError, OSError) as error:
        say(str(error))
        sys.exit(2)
