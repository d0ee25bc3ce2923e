"""Every golden case of the repository, and that a golden is compared bit for bit."""
import json
import shutil

from e2e import DIFFERENT, EQUAL, ROOT, USAGE, WORK, cases, change_golden, check, main, refuse, run


def must_pass(folder):
    def test():
        r = run(folder, '--require-calibration')  # no bound of theirs is a guess
        check(r.code == EQUAL, f'{r}: exit {r.code}\n{r.out}{r.err}')
        for side in ('linen', 'nnx'):
            check(f'{side} against golden: equal' in r.out, f'{r}: {side} was not compared with the golden')
    return f'{folder.relative_to(ROOT)} on both routes', test


def one_ulp_in_a_golden_is_seen():
    folder = WORK / 'altered'
    shutil.copytree(ROOT / 'golden/unpipelined', folder)

    def flip(golden):
        leaf = golden['leaves'][0]
        leaf['digest'] = leaf['digest'][:-1] + ('0' if leaf['digest'][-1] != '0' else '1')
    change_golden(folder / 'golden.json', flip)
    r = run(folder)
    check(r.code == DIFFERENT, f'{r}: exit {r.code}, expected {DIFFERENT}\n{r.out}')


def a_golden_is_replaced_only_with_a_reason():
    folder = WORK / 'kept'
    shutil.copytree(ROOT / 'golden/unpipelined', folder)
    before = (folder / 'golden.json').read_bytes()
    r = run('record', folder, tool='ab_golden')
    check(r.code == USAGE and '--reason' in r.err, f'{r}: exit {r.code}: {r.err}')
    check((folder / 'golden.json').read_bytes() == before, 'the golden was touched')
    r = run('record', folder, '--reason', 'test', tool='ab_golden')
    check(r.code == EQUAL, f'{r}: exit {r.code}: {r.err}')
    old, new = json.loads(before), json.loads((folder / 'golden.json').read_text())
    check(old['leaves'] == new['leaves'] and old['metrics'] == new['metrics'], 'the same case gave other numbers')


def a_golden_that_is_a_link_is_refused_before_the_run():
    folder = WORK / 'linked'
    shutil.copytree(ROOT / 'golden/unpipelined', folder)
    shutil.move(folder / 'golden.json', WORK / 'elsewhere.json')
    (folder / 'golden.json').symlink_to('../elsewhere.json')
    for words in (['record', folder, '--reason', 'test'], ['calibrate', folder]):
        refuse(*words, tool='ab_golden', says=['golden.json', 'is not a regular file'])


for golden in sorted(ROOT.glob('golden/*/golden.json')):
    cases.append(must_pass(golden.parent))
for test in (one_ulp_in_a_golden_is_seen, a_golden_is_replaced_only_with_a_reason,
             a_golden_that_is_a_link_is_refused_before_the_run):
    cases.append((test.__name__.replace('_', ' '), test))
main()
