#!/usr/bin/env python3
"""coverage.py BUILD [--uncovered PREFIX]: line and branch coverage of a build with -Db_coverage=true, from its .gcda
files by gcov.

A row is a folder, or a parser, with the share of its lines that some test must run; headers count where they are. To
stderr goes the table, to stdout `passed failed 0 coverage` for ./dev check-all. --uncovered prints the lines that no
test ran, instead.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PARSERS = ('common/tensor/safetensors.c', 'common/tensor/npz.c')
STRICT = ('common/base', 'common/config', 'common/compare', *PARSERS)
LEAST, LEAST_STRICT = 90, 95  # percent of lines
BATCH = 100  # .gcda files that one gcov reads


def reports(build):
    """What gcov says of each .gcda file. Objects of one source share its name, so all come through stdout."""
    data = sorted(str(p.relative_to(build)) for p in build.rglob('*.gcda'))
    for at in range(0, len(data), BATCH):
        done = subprocess.run(['gcov', '--json-format', '--stdout', '--branch-probabilities', *data[at:at + BATCH]],
                              cwd=build, capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            if line.startswith('{'):
                yield json.loads(line)


def source_of(report, name):
    """The path below the root, None for what is not measured."""
    path = (pathlib.Path(report['current_working_directory']) / name).resolve()
    inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0]
    return str(path.relative_to(ROOT)) if inside and inside != 'tests' else None


def measure(build):
    """{file: {line: count}}, {file: {(line, place): count}}; what several objects ran of a header is added up."""
    lines = collections.defaultdict(collections.Counter)
    branches = collections.defaultdict(collections.Counter)
    for report in reports(build):
        for file in report['files']:
            source = source_of(report, file['file'])
            for line in file['lines'] if source else ():
                number = line['line_number']
                lines[source][number] += line['count']
                for place, branch in enumerate(line['branches']):
                    branches[source][number, place] += branch['count']
    return lines, branches


def row_of(file):
    if file in PARSERS:
        return file
    parts = file.split('/')
    return '/'.join(parts[:2] if parts[0] == 'common' else parts[:1])


def tally(measured):
    """{row: (run, all)}"""
    rows = collections.defaultdict(lambda: [0, 0])
    for file, counts in measured.items():
        rows[row_of(file)][0] += sum(count > 0 for count in counts.values())
        rows[row_of(file)][1] += len(counts)
    return rows


def share(run, total):
    return 100 * run / total if total else 100


def report_rows(lines, branches):
    """(rows that reach their share, rows that do not)"""
    ran, taken, passed = tally(lines), tally(branches), 0
    print(f'{"":32} {"lines":>15} {"%":>6} {"least":>6} {"branches":>15} {"%":>6}', file=sys.stderr)
    for row in sorted(ran):
        least = LEAST_STRICT if row in STRICT else LEAST
        enough = share(*ran[row]) >= least
        passed += enough
        print(f'{row:32} {ran[row][0]:>7} /{ran[row][1]:>6} {share(*ran[row]):6.1f} {least:6} '
              f'{taken[row][0]:>7} /{taken[row][1]:>6} {share(*taken[row]):6.1f}{"" if enough else "  TOO FEW"}',
              file=sys.stderr)
    missing = [row for row in STRICT if row not in ran]
    for row in missing:
        print(f'{row:32} nothing was measured', file=sys.stderr)
    return passed, len(ran) - passed + len(missing)


def print_uncovered(lines, prefix):
    for file in sorted(f for f in lines if f.startswith(prefix)):
        text = (ROOT / file).read_text().splitlines()
        for number in sorted(n for n, count in lines[file].items() if count == 0):
            print(f'{file}:{number}: {text[number - 1].strip()}')


def main():
    parser = argparse.ArgumentParser(prog='coverage.py')
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--uncovered', metavar='PREFIX')
    args = parser.parse_args()
    lines, branches = measure(args.build.resolve())
    if args.uncovered is not None:
        print_uncovered(lines, args.uncovered)
        return
    print(*report_rows(lines, branches), 0, 'coverage')


if __name__ == '__main__':
    main()
