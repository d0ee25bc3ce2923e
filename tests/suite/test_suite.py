#!/usr/bin/env python3
"""--suite from end to end: a good, a red and a skipped case, what cannot run, goldens that keep their ends only, and
MaxText's pipeline tests."""
import json
import re
import shutil

from e2e import (DIFFERENT, EQUAL, FAULTS, GOLDEN, INCOMPARABLE, REFERENCE, ROOT, SMALL, USAGE, case, change_golden, change_json,
                 check, expect, folder, main, refuse)

ROW = re.compile(r'^(\S+)  +(\S+) +(linen:nnx|-) +((?:[=<X!.]   ?){10}) *(\S.*?) +(\d)$', re.M)
recorded = {}


def golden_case(keep='all'):
    """A case folder with a golden that was recorded once for all cases of this script."""
    if keep not in recorded:
        recorded[keep] = folder('recorded') / 'case'
        recorded[keep].mkdir()
        shutil.copy(FAULTS / 'circ.yml', recorded[keep] / 'config.yml')
        expect(EQUAL, 'record', recorded[keep], '--keep', keep, tool='ab_golden', says=['recorded'])
    target = folder() / 'case'
    shutil.copytree(recorded[keep], target)
    return target


def write_list(*rows):
    path = folder('suite') / 'list.yml'
    path.write_text('cases:\n' + ''.join(f'  - {json.dumps(row)}\n' for row in rows))
    return path


def matrix(run):
    """{name: (schedule, routes, cells, worst, exit)}"""
    return {m[0]: (m[1], m[2], m[3].split(), m[4], int(m[5])) for m in ROW.findall(run.out)}


def damage(path, tensor, phase, key='digest'):
    """One digest of the golden is that of other values."""
    def change(golden):
        leaf = next(x for x in golden['leaves'] if x['tensor'] == tensor and x['phase'] == phase)
        leaf[key] = '0' * 32
    change_golden(path / 'golden.json', change)


@case
def a_good_a_red_and_a_skipped_case():
    good, red, report = golden_case(), golden_case(), folder() / 'report.json'
    damage(red, 'mlp/wo/kernel', 'backward')
    path = write_list({'name': 'good', 'case': str(good)}, {'name': 'red', 'case': str(red)},
                      {'name': 'later', 'skip': 'needs fp8'})
    r = expect(DIFFERENT, '--suite', path, '--json', report,
               says=['RED: suite', '1 of 2 cases equal, 1 numeric difference, 1 skipped', 'skipped: later: needs fp8',
                     'red: DIFFERENT: linen against nnx', 'exit: 1 (numeric difference)'])
    rows = matrix(r)
    check(rows['good'][:3] == ('2-4-2-1-1', 'linen:nnx', ['='] * 8 + ['<', '=']), f'{rows}')
    check(rows['red'][2] == ['='] * 8 + ['<', 'X'], f'{rows}')
    check((rows['good'][4], rows['red'][4]) == (EQUAL, DIFFERENT), f'{rows}')
    j = json.loads(report.read_text())
    check(j['schema'] == 'abpipe-suite/1' and j['exit_code'] == DIFFERENT, str(j)[:300])
    check([c['name'] for c in j['cases']] == ['good', 'red', 'later'], str(j)[:300])
    check(j['cases'][1]['matrix']['recorded'] == 'over bound', str(j['cases'][1]['matrix']))
    check(j['cases'][0]['report']['schema'] == 'abpipe-report/1', str(j)[:300])
    check(j['cases'][2] == {'name': 'later', 'skip': 'needs fp8'}, str(j['cases'][2]))


@case
def json_on_standard_output_stands_alone():
    r = expect(EQUAL, '--suite', write_list({'name': 'good', 'case': str(golden_case())}), '--json', '-')
    check(json.loads(r.out)['exit_code'] == EQUAL, r.out[:300])


@case
def what_cannot_run_is_red_and_the_rest_runs():
    lost, stale = golden_case(), golden_case()
    (lost / 'golden.json').unlink()
    path = write_list({'name': 'good', 'case': str(golden_case())}, {'name': 'lost', 'case': str(lost)},
                      {'name': 'stale', 'case': str(stale), 'overrides': ['learning_rate=0.5']})
    r = expect(GOLDEN, '--suite', path, says=['2 golden missing, stale or malformed', 'golden.json', 'learning_rate'])
    check([row[4] for row in matrix(r).values()] == [EQUAL, GOLDEN, GOLDEN], r.out)
    path = write_list({'name': 'nowhere', 'case': 'nowhere'}, {'name': 'lost', 'case': str(lost)},
                      {'name': 'good', 'case': str(golden_case())})
    r = expect(USAGE, '--suite', path, says=['nowhere: ERROR: ', '1 of 3 cases equal'])
    check([row[4] for row in matrix(r).values()] == [USAGE, GOLDEN, EQUAL], r.out)


@case
def verbose_shows_every_report():
    path = write_list({'name': 'good', 'case': str(golden_case())})
    expect(EQUAL, '--suite', path, '--verbose', says=['good: EQUAL: linen against nnx', 'nnx against golden: equal'])


@case
def overrides_and_routes_belong_to_their_row():
    path = write_list({'name': 'config', 'case': str(FAULTS / 'circ.yml'), 'overrides': ['steps=1'], 'a': 'nnx',
                       'b': 'sequential'})
    r = expect(EQUAL, '--suite', path, '--b', 'linen')
    check('nnx:sequential' in r.out, r.out)


@case
def variables_of_the_environment_are_named():
    path = write_list({'name': 'one', 'case': SMALL}, {'name': 'two', 'case': SMALL},
                      {'name': 'bundle', 'case': str(REFERENCE / 'e01_simple')}, {'name': 'later', 'skip': 'x'})
    r = expect(EQUAL, '--suite', path, environment={'M_STEPS': '1', 'M_NO\nPE\x1b': '1'})
    notes = [line for line in r.out.splitlines() if line.startswith('note: ')]
    check(sorted(notes) == ['note: M_NO\\x0aPE\\x1b is set, but there is no such key (3 of 3 cases)',
                            'note: M_STEPS is set and not read: the config of a bundle stands (1 of 3 cases)',
                            'note: M_STEPS=1 in force (2 of 3 cases)'], r.out)
    check('note: ' not in expect(EQUAL, '--suite', path).out, 'a note without variables')


@case
def nothing_that_ran_is_not_equal():
    expect(INCOMPARABLE, '--suite', write_list({'name': 'later', 'skip': 'needs fp8'}), says=['0 of 0 cases equal'])


@case
def malformed_lists_are_refused():
    path = folder() / 'list.yml'
    path.write_text('cases:\n  - name: one\n    case: x\n    wrong: y\n')
    refuse('--suite', path, says=[f'{path}:4:5', "'wrong' is not a key"])
    path.write_text('cases: [\n')
    refuse('--suite', path, says=[str(path)])
    refuse('--suite', folder() / 'nowhere.yml', says=['nowhere.yml'])


@case
def a_suite_goes_with_no_case_of_the_command_line():
    path = write_list({'name': 'later', 'skip': 'needs fp8'})
    for more in (['steps=1'], ['configs/main.yml'], ['--steps', '1'], ['--golden', 'x'], ['--dump', 'x'],
                 ['--devices', '2']):
        refuse('--suite', path, *more, says=['--suite was given with'])


@case
def an_output_that_cannot_be_written_is_exit_2():
    expect(USAGE, '--suite', write_list({'name': 'good', 'case': str(golden_case())}), '--json', '/nowhere/x.json',
           says=['/nowhere'])


@case
def a_golden_of_ends_is_smaller_and_still_whole():
    whole, ends = golden_case(), golden_case('ends')
    check((ends / 'golden.json').stat().st_size < 0.6 * (whole / 'golden.json').stat().st_size, 'not smaller')
    golden = json.loads((ends / 'golden.json').read_text())
    steps = {(leaf['phase'] == 'update', leaf['step']) for leaf in golden['leaves']}
    check(golden['selection'] == 'ends' and steps == {(False, 0), (True, 1)}, f'{steps}')
    check({m['step'] for m in golden['metrics']} == {0, 1}, 'metrics of a step are missing')
    expect(EQUAL, ends, says=['linen against golden: equal'])
    expect(EQUAL, 'record', ends, '--reason', 'again', tool='ab_golden')
    check(json.loads((ends / 'golden.json').read_text())['selection'] == 'ends', 'recording again changed the selection')


@case
def a_golden_may_not_lack_or_add_what_its_selection_holds():
    def drop(golden):
        golden['leaves'] = [x for x in golden['leaves'] if (x['tensor'], x['phase']) != ('mlp/wo/kernel', 'update')]

    def call_all(golden):
        del golden['selection']

    def call_ends(golden):
        golden['selection'] = 'ends'
    for keep, change in (('ends', drop), ('all', drop), ('ends', call_all), ('all', call_ends)):
        target = golden_case(keep)
        change_golden(target / 'golden.json', change)
        expect(INCOMPARABLE, target)
    target = golden_case('ends')
    change_json(target / 'golden.json', lambda golden: golden.update(selection='some'))
    expect(GOLDEN, target, says=["selection", "is not 'ends'"])
    shutil.rmtree(target)
    refuse('record', golden_case('ends'), '--reason', 'again', '--keep', 'some', tool='ab_golden', says=["'some'"])


@case
def maxtexts_pipeline_tests_are_equal():
    r = expect(EQUAL, '--suite', 'golden/maxtext_pipeline.yml', cwd=ROOT)
    rows = matrix(r)
    for name, (_, _, cells, _, code) in rows.items():
        check(code == EQUAL and cells[9] in '=<', f'{name}: {cells}')
        check(set(cells[:4] + cells[5:8]) == {'='} and cells[4] in '=.', f'{name}: {cells}')
    check(len(rows) >= 25, f'{len(rows)} rows ran')
    skipped = re.findall(r'^skipped: (\S+): (.+)$', r.out, re.M)
    check(len(skipped) >= 10, f'{skipped}')


main()
