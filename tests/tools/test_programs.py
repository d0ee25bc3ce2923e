#!/usr/bin/env python3
"""Another build of ab_compare as a side: --a-bin, --b-bin."""
import json
import shutil

from e2e import BUILD, DIFFERENT, EQUAL, INCOMPARABLE, SIDE, SMALL, TOOL, build, case, check, expect, folder, main, program, refuse


def other_build(tool=TOOL):
    return shutil.copy(tool, folder('build') / 'ab_compare')


@case
def another_build_of_one_route():
    path = other_build()
    r = expect(EQUAL, SMALL, '--a', 'nnx', '--b', 'nnx', '--b-bin', path, '--json', '-')
    report = json.loads(r.out)
    names = report['comparisons'][0]['a'], report['comparisons'][0]['b']
    check(names[0] == 'nnx' and names[1].startswith('nnx@'), f'{names}')
    check(any(str(path) in note and 'commit' in note for note in report['notes']), f'{report["notes"]}')
    check(str(path) in report['command'], report['command'])


@case
def either_side_and_both():
    expect(EQUAL, SMALL, '--a-bin', other_build(), says=['EQUAL: linen@'])
    expect(EQUAL, SMALL, '--b', 'linen', '--a-bin', other_build(), '--b-bin', other_build())


@case
def one_file_on_both_sides_compares_nothing():
    path = other_build()
    refuse(SMALL, '--b', 'linen', '--b-bin', TOOL, says=['nothing would be compared'])
    refuse(SMALL, '--b', 'linen', '--a-bin', path, '--b-bin', path, says=['nothing would be compared'])


@case
def a_build_with_other_numbers_is_the_wrong_one():
    wrong = build(f'exec "{TOOL}" "$@" rope_max_timescale=500000')
    expect(DIFFERENT, SMALL, '--b', 'linen', '--b-bin', wrong, says=['cause: B wrong', 'first divergence: step 0'])
    expect(DIFFERENT, SMALL, '--b', 'linen', '--a-bin', wrong, says=['cause: A wrong'])


ALTERED = BUILD / 'tests/tools/ab_compare_altered'  # a build that does not report what AB_ALTERED names: altered.c


@case
def a_build_that_reports_all_is_equal():
    expect(EQUAL, SMALL, '--b', 'linen', '--b-bin', ALTERED, says=['EQUAL: linen against linen@'])


@case
def what_a_build_does_not_report_is_missing():
    """Of both sides too: that nobody reports it is no agreement."""
    for silent, missing in (('state/', 'state/step update'), ('input/params', 'input/params/mlp/wo/kernel'),
                            ('state/count', 'state/count'), ('mu/', 'mu/mlp/wo/kernel'), ('loss', 'loss'),
                            ('query_proj', 'query_proj')):
        r = expect(INCOMPARABLE, SMALL, '--b', 'linen', '--b-bin', ALTERED, environment={'AB_ALTERED': f'silent {silent}'},
                   says=['NOT COMPARABLE: ', '\nstructure: added in linen: '])
        check(missing in r.out, f'{silent}: {r.out}')
    both = ['--b', 'nnx', '--b-bin', ALTERED, '--a-bin', ALTERED]
    for silent in 'state/', 'input/', 'mu/', 'lr':
        expect(INCOMPARABLE, SMALL, *both, environment={'AB_ALTERED': f'silent {silent}'},
               says=['cause: structure differs'])


@case
def an_annotation_names_what_is_missing():
    expect(INCOMPARABLE, SMALL, '--b', 'nnx', '--b-bin', ALTERED, '--a-bin', ALTERED, '--github',
           environment={'AB_ALTERED': 'silent state/'}, says=['::error file=', '; structure: state 0 of 4'])


@case
def rng_positions_that_a_build_does_not_report():
    expect(INCOMPARABLE, SMALL, '--b', 'nnx', '--b-bin', ALTERED, environment={'AB_ALTERED': 'silent rng/key'},
           says=["because: nnx@", "reports 'rng/key/0' of repeat 0, stage 0 0 times after step 0, expected once"])


@case
def rng_positions_that_a_build_is_too_old_for():
    """What both report is compared, and the report says what was not: never a silent green."""
    old, b = {'AB_ALTERED': 'older rng/'}, 'not reported by side b (nnx@'
    r = expect(EQUAL, SMALL, '--b', 'nnx', '--b-bin', ALTERED, '--json', '-', environment=old, says=[b])
    check(any(note.startswith(b) and 'rng positions' in note for note in json.loads(r.out)['notes']), r.out)
    both = SMALL, '--a', 'nnx', '--b', 'nnx', '--a-bin', ALTERED, '--b-bin', other_build(ALTERED)
    expect(EQUAL, *both, environment=old, says=['not reported by side a (nnx@', b])
    for route, left_out in ('linen', 'rng/'), ('nnx', 'nothing'):
        r = expect(EQUAL, SMALL, '--b', route, '--b-bin', ALTERED, environment={'AB_ALTERED': f'older {left_out}'})
        check('not reported by' not in r.out, r.out)
    expect(INCOMPARABLE, SMALL, '--b', 'nnx', '--b-bin', ALTERED, environment={'AB_ALTERED': 'older rng/key/1'},
           says=["reports 'rng/key/1' of repeat 0"])
    expect(INCOMPARABLE, SMALL, '--b', 'nnx', '--b-bin', ALTERED, environment={'AB_ALTERED': 'older state/'},
           says=['structure: added in linen'])
    wrong = build(f'AB_ALTERED="older rng/" exec "{ALTERED}" "$@" rope_max_timescale=500000')
    expect(DIFFERENT, SMALL, '--b', 'nnx', '--b-bin', wrong, says=[b, 'cause: B wrong'])


@case
def what_is_no_build():
    plain = folder() / 'plain'
    plain.write_text('text')
    for path, says in [('/does/not/exist', 'No such file'), ('/tmp', 'not a file'), (plain, 'not executable'),
                       (program('echo hello'), 'is no build of ab_compare'), (program('exit 7'), 'exited with code 7'),
                       (build('', "echo 'ab_compare 9'"), 'is no build of ab_compare')]:
        for option in '--a-bin', '--b-bin':
            refuse(SMALL, option, path, says=[f"{option} '{path}'", says])


@case
def another_version_of_the_stream():
    speaks = build('', f'"{TOOL}" --version | sed "s/stream [0-9]*/stream 99/"')
    refuse(SMALL, '--b-bin', speaks, says=['version 99 of the stream', 'expected version'])


@case
def a_build_that_fails_as_a_side():
    for side, says in [('echo no such option >&2; exit 2', 'exited with code 2: no such option'),
                       ('kill -SEGV $$', 'SIGSEGV'), ('head -c 100000 /dev/zero >&3', 'it is no abpipe stream'),
                       ('exit 0', 'ended at byte 0'), ('sleep 100', 'did not finish in time')]:
        expect(SIDE, SMALL, '--b-bin', build(side), '--timeout', '2', says=['failed: side b (nnx@', says])


@case
def goldens_are_recorded_from_this_build():
    refuse('record', folder(), '--b-bin', other_build(), tool='ab_golden', says=['--b-bin'])


main()
