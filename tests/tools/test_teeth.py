#!/usr/bin/env python3
"""Teeth: what a green run rests on, and that a comparer which cannot turn red is found out by its own controls."""
import json

from e2e import DIFFERENT, EQUAL, REFERENCE, ROOT, SMALL, TOOL, build, case, check, expect, main

SELFTEST = 6
BLINDED = '../tests/tools/ab_compare_blinded'  # with a verdict that AB_BLINDED breaks: blinded.c


def report_of(*arguments, code=EQUAL, **options):
    return json.loads(expect(code, *arguments, '--json', '-', **options).out)


def outcomes(report):
    return {c['name']: c['outcome'] for c in report['controls']['list']}


@case
def a_green_run_says_which_controls_it_caught():
    r = expect(EQUAL, SMALL, says=['\ncontrols: 23 of 23 caught\n'])
    check(r.out.index('controls: ') < r.out.index('exit: 0'), 'the controls come after the verdict')
    report = report_of(SMALL)
    check(set(outcomes(report).values()) == {'caught'}, str(outcomes(report)))
    check(report['controls']['caught'] == len(report['controls']['list']) == 23, str(report['controls'])[:200])


@case
def verbose_lists_them():
    r = expect(EQUAL, SMALL, '--verbose', says=['\ncontrol: one ulp: caught, exit 1 of expected 1 (step 0 layers/'])
    check(r.out.count('\ncontrol: ') == 23, r.out[:400])


@case
def what_cannot_apply_is_named_with_its_reason():
    expect(EQUAL, ROOT / 'golden/unpipelined', says=['controls: 18 of 18 caught (n/a: ', 'swapped stages: one stage'])
    expect(EQUAL, REFERENCE / 'e01_simple', '--a', 'linen-exact', '--b', 'nnx-exact',
           says=['NaN in a tensor: residues have no NaN', 'shifted step: one step', 'no bounded comparison'])
    expect(EQUAL, SMALL, '--a', 'linen64', '--b', 'nnx64', says=['controls: ', 'one ulp: no bitwise comparison'])


@case
def a_red_run_has_no_controls():
    wrong = build(f'exec "{TOOL}" "$@" rope_max_timescale=500000')
    r = expect(DIFFERENT, SMALL, '--b', 'linen', '--b-bin', wrong)
    check('controls: ' not in r.out, r.out)
    report = report_of(SMALL, '--b', 'linen', '--b-bin', wrong, code=DIFFERENT)
    check(report['controls'] is report['unobserved'] is report['blind'] is None, str(report['controls']))


@case
def a_comparer_that_cannot_turn_red_is_found_out():
    missed = {'equal': "'one ulp'", 'structure': "'microbatch not run'", 'unpinned': "'leaf missing on both sides'",
              'metrics': "'scaled loss'", 'wide': "'metric above its bound'", 'strict': "'tensor at its bound'",
              'norms': "'one ulp'"}
    for how, control in missed.items():
        expect(SELFTEST, SMALL, tool=BLINDED, environment={'AB_BLINDED': how},
               says=['SELF-TEST FAILED: ', f'\nbecause: control {control} was not caught: ',
                     '\nexit: 6 (self-test failed)'])


@case
def without_sabotage_that_build_is_green():
    expect(EQUAL, SMALL, tool=BLINDED, says=['controls: 23 of 23 caught'])


@case
def json_of_a_failed_self_test():
    report = report_of(SMALL, code=SELFTEST, tool=BLINDED, environment={'AB_BLINDED': 'structure'})
    check(report['exit_code'] == SELFTEST and report['exit_reason'] == 'self-test failed', report['exit_reason'])
    missed = sorted(n for n, o in outcomes(report).items() if o == 'missed')
    check('missing leaf' in missed and 'renamed leaf' in missed and 'one ulp' not in missed, str(missed))
    row = next(c for c in report['controls']['list'] if c['name'] == 'missing leaf')
    check((row['expected_exit'], row['got_exit']) == (5, 0) and 'layers/' in row['on'], str(row))


main()
