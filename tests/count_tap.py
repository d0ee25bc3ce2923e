"""Counts TAP cases of a meson testlog.json: `passed failed skipped label` on one line.

count_tap.py LABEL LOG     one line for one run; a test program that crashed, timed out or printed no case is a failure
count_tap.py --sum COUNTS  prints `N passed, N failed, N skipped` last; exit 1 if anything failed or nothing passed
"""
import json
import re
import sys

CASE = re.compile(r'^(not )?ok\b(?P<rest>.*)$')


def count_program(test):
    passed = failed = skipped = 0
    for line in (test.get('stdout') or '').splitlines():
        match = CASE.match(line)
        if not match:
            continue
        if match.group(1):
            failed += 1
        elif re.search(r'# skip', match.group('rest'), re.I):
            skipped += 1
        else:
            passed += 1
    broken = test['result'] not in ('OK', 'SKIP', 'EXPECTEDFAIL') or test.get('returncode') not in (0, None)
    if (broken or passed + skipped == 0) and failed == 0:
        print(f"{test['name']}: {test['result']}, no complete set of cases", file=sys.stderr)
        failed += 1
    return passed, failed, skipped


def count_log(label, path):
    total = [0, 0, 0]
    try:
        with open(path, encoding='utf-8') as log:
            for line in log:
                for i, n in enumerate(count_program(json.loads(line))):
                    total[i] += n
    except OSError as error:
        print(f'{label}: no test log: {error}', file=sys.stderr)
        total[1] += 1
    print(*total, label)


def sum_counts(path):
    total = [0, 0, 0]
    with open(path, encoding='utf-8') as counts:
        for line in counts:
            passed, failed, skipped, label = line.split()
            print(f'{label}: {passed} passed, {failed} failed, {skipped} skipped', file=sys.stderr)
            total = [a + int(b) for a, b in zip(total, (passed, failed, skipped))]
    if total[0] == 0 and total[1] == 0:
        total[1] = 1
    print(f'{total[0]} passed, {total[1]} failed, {total[2]} skipped')
    sys.exit(1 if total[1] else 0)


if __name__ == '__main__':
    if sys.argv[1] == '--sum':
        sum_counts(sys.argv[2])
    else:
        count_log(sys.argv[1], sys.argv[2])
