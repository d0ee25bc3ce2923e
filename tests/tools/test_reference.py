#!/usr/bin/env python3
"""Every case of the manifest passes on both routes, but for those of later work.

../skipped.txt holds one line for each of these: `case: reason`. Their number may only fall; one that passes must go.
"""
import json

from e2e import EQUAL, REFERENCE, ROOT, cases, check, expect, main, run

SKIPPED_AT_MOST = 19
NOW = ('main-job', 'circular')

rows = json.loads((REFERENCE / 'manifest.json').read_text())['cases']
lines = [line for line in (ROOT / 'tests/skipped.txt').read_text().splitlines() if line and line[0] != '#']
skipped = dict(line.split(': ', 1) for line in lines)


def must_pass(row):
    def test():
        r = expect(EQUAL, f'tests/fixtures/reference/{row["case"]}')
        first = r.out.splitlines()[0]
        check(first.startswith('EQUAL: linen against nnx'), f'{r}: verdict is {first}')
        for side in ('linen', 'nnx'):
            for other in ('sequential', 'MaxText'):
                check(f'{side} against {other}: ' in r.out, f'{r}: {side} was not compared with {other}')
    return f'{row["case"]} on both routes ({row["what"]})', test


def later(row):
    def test():
        r = run(f'tests/fixtures/reference/{row["case"]}')
        check(r.code != EQUAL, f'{r}: passes: take it out of tests/skipped.txt')
        return skipped[row['case']]
    return f'{row["case"]} ({row["what"]})', test


def skips_are_those_of_later_work():
    allowed = {row['case'] for row in rows if row['issue'] not in NOW}
    check(set(skipped) <= allowed, f'tests/skipped.txt skips {sorted(set(skipped) - allowed)}')
    check(len(lines) == len(skipped), 'tests/skipped.txt names a case twice')
    check(all(reason.strip() for reason in skipped.values()), 'a case is skipped without a reason')
    check(len(skipped) <= SKIPPED_AT_MOST, f'{len(skipped)} cases are skipped, at most {SKIPPED_AT_MOST} may be')


cases.append(('skips are those of later work and no more than before', skips_are_those_of_later_work))
for one in rows:
    cases.append(later(one) if one['case'] in skipped else must_pass(one))
main()
