#!/usr/bin/env python3
"""Every fault of the corpus is well formed, and its patch applies to the tree as it is; as TAP. Builds nothing."""
import array
import json
import pathlib
import struct
import sys
import tempfile

import clean
import corpus
import loose
import run

GOOD = '''title: t
source: a/b#1
seed: S07
place: accum
config: configs/main.yml
trigger: []
side: linen
expect:
  verdict: difference
  first: step=0 layer=1 tensor=x phase=backward stage=1
  explanation: zero
'''


def check(condition, message):
    if not condition:
        raise AssertionError(message)


def fault_of(text, patch=''):
    """A fault with this fault.yml, in a folder that outlives the test by nothing."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'B01_x'
        path.mkdir()
        (path / 'fault.yml').write_text(text)
        (path / 'patch').write_text(patch)
        return corpus.Fault(path)


def rejects(text, about):
    try:
        fault_of(text)
    except corpus.Malformed as error:
        check(about in str(error), f'{error} does not speak of {about}')
        return
    raise AssertionError(f'accepted what is wrong with {about}')


def the_reader_rejects_what_is_malformed():
    fault_of(GOOD.replace('trigger: []', 'trigger:\n  - steps=2'))
    for old, new, about in (
            ('place: accum', 'place: elsewhere', 'place'), ('seed: S07', 'seed: 7', 'seed'),
            ('side: linen', 'side: oracle', 'side'), ('a/b#1', 'somewhere', 'source'),
            ('explanation: zero', 'explanation: strange', 'explanation'), ('difference', 'different', 'verdict'),
            ('layer=1', 'layer=one', 'first'), ('first: step=0 layer=1 tensor=x', 'first: layer=1', 'first'),
            ('configs/main.yml', 'configs/none.yml', 'config'), ('title: t\n', '', 'title'),
            ('title: t', 'title: t\ntitle: u', 'title'), ('trigger: []', 'trigger:\n  - steps 2', 'trigger')):
        rejects(GOOD.replace(old, new), about)


def a_patch_that_does_not_apply_is_refused():
    patch = '--- a/README.md\n+++ b/README.md\n@@ -1,1 +1,1 @@\n-no such line is there\n+at all\n'
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'B01_x'
        path.mkdir()
        (path / 'fault.yml').write_text(GOOD)
        (path / 'patch').write_text(patch)
        check('does not apply' in corpus.Fault(path).apply(corpus.ROOT, dry=True), 'it was taken')


def finding(**changes):
    at = {'iteration': 4, 'stage': 1, 'repeat': 0}
    return {'step': 0, 'microbatch': -1, 'layer': 1, 'tensor': 'x', 'phase': 'backward', 'at_b': at, **changes}


def a_report_is_judged_by_code_place_and_explanation():
    fault = fault_of(GOOD)

    def verdict(code, where, ids):
        report = {'comparisons': [{'first_divergence': where}], 'explanations': [{'id': i} for i in ids]}
        result = run.judge(fault, code, report, True)
        return result['caught'], result['place'], result['explained']

    check(verdict(1, finding(), ['zero', 'stale']) == (True, True, True), 'a right report is not right')
    check(verdict(0, finding(), ['zero']) == (False, False, False), 'equal counts as caught')
    check(verdict(5, finding(), ['zero']) == (False, False, False), 'another exit code counts as caught')
    check(verdict(1, finding(layer=2), ['zero'])[1] is False, 'another layer counts as the place')
    check(verdict(1, finding(at_b={'iteration': 4, 'stage': 0, 'repeat': 0}), [])[1] is False, 'another stage does')
    check(verdict(1, None, [])[1] is False, 'no place counts as the place')
    check(verdict(1, finding(), ['stale'])[2] is False, 'another explanation counts')


def the_loose_bar_is_that_of_numpy():
    check(loose.close(0.0, 0.2, loose.RTOL, loose.ATOL) and loose.close(3.0, 2.55, loose.RTOL, loose.ATOL), 'too tight')
    check(not loose.close(0.0, 0.23, loose.RTOL, loose.ATOL), 'too loose')
    nan = float('nan')
    check(not loose.close(nan, nan, 1, 1) and not loose.close(nan, 0, 1, 1), 'NaN is close to something')


def dump(folder, name, values, loss, tensor='w'):
    """What ab_compare --dump writes, as far as the loose bar reads it."""
    path = pathlib.Path(folder) / name
    path.mkdir()
    data = array.array('f', values).tobytes()
    header = json.dumps({tensor: {'dtype': 'F32', 'shape': [len(values)], 'data_offsets': [0, len(data)]}}).encode()
    (path / 'grads.safetensors').write_bytes(struct.pack('<Q', len(header)) + header + data)
    (path / 'expected.json').write_text(json.dumps({'steps': [{'loss': {'value': loss}}]}))
    return path


def the_loose_bar_reads_dumps():
    with tempfile.TemporaryDirectory() as folder:
        clean_side = dump(folder, 'clean', [1.0, -2.0, 0.1], 5.0)
        for name, values, loss, tensor, passes in (
                ('same', [1.0, -2.0, 0.1], 5.0, 'w', True), ('near', [1.29, -2.0, 0.0], 5.05, 'w', True),
                ('far', [1.31, -2.0, 0.1], 5.0, 'w', False), ('loss', [1.0, -2.0, 0.1], 5.07, 'w', False),
                ('name', [1.0, -2.0, 0.1], 5.0, 'v', False), ('nan', [1.0, -2.0, float('nan')], 5.0, 'w', False),
                ('short', [1.0, -2.0], 5.0, 'w', False)):
            found = loose.passes(dump(folder, name, values, loss, tensor), clean_side)
            check(found == passes, f'{name}: {found}, expected {passes}')


def clean_commands_follow_from_their_numbers():
    check(clean.command('x', 1, 7) == clean.command('x', 1, 7), 'one number, two commands')
    check(clean.command('x', 1, 7) != clean.command('x', 1, 8), 'two numbers, one command')


def well_formed(folder):
    fault = corpus.Fault(folder)
    check(fault.files(), f'{fault.patch} changes nothing')
    for path in fault.files():
        check((corpus.ROOT / path).is_file(), f'{fault.patch} changes {path}, which is not in the repository')
    for path, block in fault.hunks():
        places = (corpus.ROOT / path).read_text().count(block)
        check(places == 1, f'{fault.patch}: {path} has {places} places for {block!r}, expected 1')
    problem = fault.apply(corpus.ROOT, dry=True)
    check(not problem, problem)


def main():
    tests = [(f.__name__.replace('_', ' '), f, ()) for f in (
        the_reader_rejects_what_is_malformed, a_patch_that_does_not_apply_is_refused,
        a_report_is_judged_by_code_place_and_explanation, the_loose_bar_is_that_of_numpy,
        the_loose_bar_reads_dumps, clean_commands_follow_from_their_numbers)]
    tests += [(f'{f.parent.name}/{f.name}', well_formed, (f,)) for f in corpus.folders()]
    failed = 0
    print(f'1..{len(tests)}')
    for number, (name, test, arguments) in enumerate(tests, 1):
        try:
            test(*arguments)
            print(f'ok {number} - {name}')
        except (AssertionError, corpus.Malformed, OSError) as error:
            failed += 1
            print(f'not ok {number} - {name}\n# {str(error).replace(chr(10), chr(10) + "# ")}')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
