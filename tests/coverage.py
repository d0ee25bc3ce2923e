#!/usr/bin/env python3
"""coverage.py BUILD [--uncovered PREFIX]: line and branch coverage of a build with -Db_coverage=true, as gcovr has it.

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


def measure(build):
    """{file: {line: count}}, {file: {(line, place): count}}"""
    done = subprocess.run(['gcovr', '--root', str(ROOT), '--exclude', 'tests/', '--json', '-', str(build)],
                          stdout=subprocess.PIPE, text=True, check=True)
    lines, branches = {}, {}
    for file in json.loads(done.stdout)['files']:
        code = [line for line in file['lines'] if not line['gcovr/noncode']]
        lines[file['file']] = {line['line_number']: line['count'] for line in code}
        branches[file['file']] = {(line['line_number'], place): branch['count']
                                  for line in code for place, branch in enumerate(line['branches'])}
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
