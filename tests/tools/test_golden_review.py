"""ab_golden: pending goldens, review, accept, reject, check, list, import, and what each refuses."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time

from e2e import (BUILD, DIFFERENT, EQUAL, GOLDEN, REFERENCE, ROOT, USAGE, Run, WORK, case, change_golden, change_json, check,
                 expect, folder, main, refuse)

GOLD, PENDING = 'golden.json', 'golden.pending.json'


def tool(code, *arguments, **options):
    return expect(code, *arguments, tool='ab_golden', **options)


def digest_of(target):
    return re.search(r'digest: (\w{32})', tool(EQUAL, 'list', target).out)[1]


def spoil(golden):
    leaf = golden['leaves'][0]
    leaf['digest'] = leaf['digest'][:-1] + ('0' if leaf['digest'][-1] != '0' else '1')


def explain(target):
    """Makes the changelog explain what the golden holds."""
    digest = digest_of(target)
    change_golden(target / GOLD, lambda golden: golden['changelog'][-1].update(digest=digest))


def good():
    target = folder() / 'case'
    shutil.copytree(ROOT / 'golden/unpipelined', target)
    return target


def other():
    """A sound golden with other numbers than the case gives."""
    target = good()
    change_golden(target / GOLD, spoil)
    explain(target)
    return target


def set_key(target, key, value):
    config = target / 'config.yml'
    text, found = re.subn(rf'^{key}: .*$', f'{key}: {value}', config.read_text(), flags=re.M)
    check(found == 1, f'{key} is not in {config}')
    config.write_text(text)


def pending_once():
    if not (WORK / 'pending').exists():
        target = other()
        expect(DIFFERENT, target, says=['golden.pending.json'])
        shutil.move(target, WORK / 'pending')
    return WORK / 'pending'


def pending():
    target = folder() / 'case'
    shutil.copytree(pending_once(), target)
    return target


@case
def a_red_comparison_leaves_a_pending_golden_and_the_golden_as_it_was():
    target = other()
    before = (target / GOLD).read_bytes()
    expect(DIFFERENT, target, '--no-pending')
    check(not (target / PENDING).exists(), '--no-pending wrote a pending golden')
    expect(DIFFERENT, target, 'run_name=other')
    expect(DIFFERENT, target, '--golden', target / GOLD)
    check(not (target / PENDING).exists(), 'a run that is not as recorded left a pending golden')
    expect(DIFFERENT, target, says=[f'wrote {target}/{PENDING}'])
    check((target / GOLD).read_bytes() == before, 'the golden was touched')
    held = json.loads((target / PENDING).read_text())
    check(held['engines_equal'] and held['cause'] == 'golden stale' and 'ab_compare' in held['command'], f'{held.keys()}')
    check(held['golden']['changelog'] == [] and held['golden']['leaves'], 'it does not hold what a golden would')
    clean = good()
    expect(EQUAL, clean)
    check(not (clean / PENDING).exists(), 'a green comparison left a pending golden')


@case
def a_stale_golden_leaves_one_too():
    target = good()
    set_key(target, 'learning_rate', 0.001)
    expect(GOLDEN, target, says=['is stale', 'cause: golden stale', PENDING])
    tool(EQUAL, 'review', target, says=["first 'learning_rate'", 'first changed step'])
    tool(EQUAL, 'accept', target, '--reason', 'another learning rate')
    tool(EQUAL, 'check', target)


@case
def where_none_can_be_written_a_note_says_so():
    target = other()
    (target / PENDING).mkdir()
    expect(DIFFERENT, target, says=['no pending golden was written', 'not a regular file'])
    expect(USAGE, target, '--require-pending', says=['not a regular file'])


@case
def review_shows_what_moved():
    target = pending()
    r = tool(EQUAL, 'review', target, says=['engines and oracle agree', 'moved: 1 of', 'first changed step: 0',
                                            'worst first', 'ab_golden accept'])
    check('[a]ccept' not in r.out, 'it asks where nobody can answer')
    tool(EQUAL, 'review', good(), says=['nothing is pending'])
    (target / PENDING).write_text('{')
    tool(GOLDEN, 'review', target)


@case
def accept_puts_it_in_place_and_says_why():
    target = pending()
    old = digest_of(target)
    tool(EQUAL, 'accept', target, '--reason', 'the embedding moved', says=['accepted'])
    check(not (target / PENDING).exists(), 'the pending golden is still there')
    entry = json.loads((target / GOLD).read_text())['changelog'][-1]
    check(entry['reason'] == 'the embedding moved' and entry['from'] == old and entry['digest'] == digest_of(target),
          f'{entry}')
    check(entry['digest'] != old and 'largest_change' in entry, f'{entry}')
    provenance = json.loads((target / GOLD).read_text())['provenance']
    check(provenance['commit'] and provenance['diff_hash'], f'{provenance}')
    tool(EQUAL, 'check', target, says=[f'ok {target}'])
    expect(EQUAL, target)


def refused(code, target, *words, says=(), environment=None, pending_left=True):
    before = (target / GOLD).read_bytes()
    words = words or ('--reason', 'a good reason')
    tool(code, 'accept', target, *words, says=says, environment=environment)
    check((target / GOLD).read_bytes() == before, f'{words}: the golden was touched')
    check((target / PENDING).exists() == pending_left, f'{words}: the pending golden is gone')


@case
def accept_wants_a_reason_and_no_ci():
    target = pending()
    for words in ([], ['--reason', ''], ['--reason', ' -- '], ['--reason', 'one\ntwo'], ['--reason', 'x' * 2000]):
        refused(USAGE, target, *(words or ['--timeout', '60']), says=['reason'])
    for ci in ('1', 'true', 'yes'):
        refused(USAGE, target, says=['CI'], environment={'CI': ci})
        tool(USAGE, 'record', target, '--reason', 'a good reason', says=['CI'], environment={'CI': ci})
    refuse('accept', tool='ab_golden', says=['CASE_DIR'], cwd=ROOT)
    refused(USAGE, good(), says=['nothing to accept'], pending_left=False)
    tool(EQUAL, 'accept', target, '--reason', 'a good reason', environment={'CI': 'false'})


def change_provenance(key):
    return lambda p: p['golden']['provenance'].update({key: 'another'})


@case
def accept_refuses_what_was_not_reviewed_or_is_not_reproduced():
    def steal(p):
        spoil(p['golden'])

    def other_config(p):
        p['golden']['config']['learning_rate'] = '0.5'
    for change, code, says in [(other_config, GOLDEN, 'config'), (steal, GOLDEN, 'edited by hand'),
                               (lambda p: p.update(engines_equal=False), DIFFERENT, 'disagreed'),
                               (lambda p: p.update(extra=1), GOLDEN, 'extra'),
                               (lambda p: p.update({'from': '0' * 32}), GOLDEN, 'compare again'),
                               (lambda p: p['golden']['metrics'][0]['number'].update(value=None), GOLDEN, 'value')]:
        target = pending()
        change_json(target / PENDING, change)
        refused(code, target, says=[says])
    for change, says in [(steal, 'not reproduced'),
                         *[(change_provenance(k), 'another build') for k in ('commit', 'diff_hash', 'compiler')]]:
        target = pending()
        change_golden(target / PENDING, change)
        refused(GOLDEN, target, says=[says])


@case
def accept_refuses_when_case_or_golden_changed_meanwhile():
    target = pending()
    set_key(target, 'learning_rate', 0.001)
    refused(GOLDEN, target, says=['learning_rate'])
    target = pending()
    change_golden(target / GOLD, lambda golden: golden['leaves'].pop())
    refused(GOLDEN, target, says=['compare again'])
    target = pending()
    (target / 'config.yml').unlink()
    refused(GOLDEN, target, says=['config.yml'])


@case
def a_pending_golden_without_the_golden_that_it_follows_is_not_accepted():
    target = pending()
    (target / GOLD).unlink()
    tool(GOLDEN, 'accept', target, '--reason', 'a good reason', says=['is an orphan', 'ab_golden record'])
    check(not (target / GOLD).exists() and (target / PENDING).exists(), 'it was accepted')
    tool(EQUAL, 'review', target, says=['it cannot be accepted'])
    tool(GOLDEN, 'check', '--no-run', target, says=['awaits review', 'there is no golden.json'])
    change_json(target / PENDING, lambda p: p.pop('from'))
    tool(GOLDEN, 'accept', target, '--reason', 'a good reason', says=['is an orphan'])


@case
def accept_refuses_to_lose_anything():
    target = good()
    set_key(target, 'steps', 1)
    expect(GOLDEN, target, says=['is stale'])
    refused(GOLDEN, target, says=['would shrink', 'step 1'])


@case
def values_that_are_not_finite_are_never_recorded():
    target = good()
    (target / GOLD).unlink()
    set_key(target, 'learning_rate', '1.0e+38')
    r = Run('record', target, tool='ab_golden').finish()
    check(r.code not in (EQUAL, USAGE), f'{r}: exit {r.code}')
    check(not (target / GOLD).exists(), 'a golden of NaN was recorded')


@case
def two_runs_and_both_engines_must_agree():
    # A tool whose sides can be made to start from other weights.
    unsteady = '../tests/tools/ab_golden_unsteady'
    for command in ('accept', 'record'):
        for wrong in ('nnx', 'linen', 'sequential'):
            target = pending()
            before = (target / GOLD).read_bytes()
            r = Run(command, target, '--reason', 'a good reason', tool=unsteady, environment={'AB_WRONG': wrong}).finish()
            check(r.code == DIFFERENT and 'DIFFERENT' in r.out, f'{r}: {wrong} wrong: exit {r.code}: {r.err}')
            check((target / GOLD).read_bytes() == before and (target / PENDING).exists(), f'{r}: {wrong} was recorded')
        target = pending()
        before = (target / GOLD).read_bytes()
        expect(DIFFERENT, command, target, '--reason', 'a good reason', tool=unsteady,
               environment={'AB_UNSTEADY': folder() / 'count'}, says=['two runs of', 'gave other bits'])
        check((target / GOLD).read_bytes() == before and (target / PENDING).exists(), f'{command} of unsteady runs')
    expect(EQUAL, 'accept', pending(), '--reason', 'a good reason', tool=unsteady)


@case
def what_a_ci_run_uploaded_is_taken_in():
    target, upload = pending(), folder('upload')
    (upload / 'case').mkdir()
    change_golden(target / PENDING, change_provenance('commit'))  # a merge commit, another machine
    shutil.move(target / PENDING, upload / 'case' / PENDING)
    tool(EQUAL, 'accept', target, '--from', upload, '--reason', 'as CI saw it', says=['accepted'])
    tool(EQUAL, 'check', target)
    again = other()
    tool(USAGE, 'accept', again, '--from', folder('empty'), '--reason', 'as CI saw it', says=['fits a case'])
    change_golden(upload / 'case' / PENDING, lambda p: spoil(p['golden']))
    tool(GOLDEN, 'accept', again, '--from', upload, '--reason', 'as CI saw it', says=['not reproduced'])


@case
def a_link_among_the_uploads_is_refused_with_one_sentence():
    target, upload = pending(), folder('upload')
    (upload / 'case').mkdir()
    (upload / 'case' / PENDING).symlink_to(target / PENDING)
    before = (target / GOLD).read_bytes()
    r = refuse('accept', target, '--from', upload, '--reason', 'as CI saw it', tool='ab_golden', says=['symbolic link'])
    check('fits a case' not in r.err and (target / GOLD).read_bytes() == before, r.err)


@case
def a_golden_of_an_older_schema_says_how_it_is_recorded_anew():
    target = good()
    change_json(target / GOLD, lambda g: (g.update(schema='abpipe-golden/1'), g.pop('seal')))
    says = ["is 'abpipe-golden/1'", "this program reads abpipe-golden/2; record the case anew: ab_golden record CASE --reason"]
    expect(GOLDEN, target, says=says)
    tool(GOLDEN, 'check', '--no-run', target, says=says)
    tool(EQUAL, 'record', target, '--reason', 'its schema was older')
    tool(EQUAL, 'check', '--no-run', target)
    expect(EQUAL, target)


@case
def recording_anew_removes_it():
    target = pending()
    tool(EQUAL, 'record', target, '--reason', 'what is pending is not wanted')
    check(not (target / PENDING).exists(), 'what was pending against the old golden is still there')
    tool(EQUAL, 'check', target, '--no-run')


@case
def reject_removes_it():
    target = pending()
    before = (target / GOLD).read_bytes()
    tool(EQUAL, 'reject', target, says=['removed'])
    check(not (target / PENDING).exists() and (target / GOLD).read_bytes() == before, 'reject did something else')
    tool(USAGE, 'reject', target, says=[PENDING])


def zero(golden):
    def number(n):
        n.update(value=0, bits='0' * len(n['bits']))
    for metric in golden['metrics']:
        number(metric['number'])
    for leaf in golden['leaves']:
        for sample in leaf['samples']:
            number(sample)


def widen(golden):
    row = golden['calibration']['bounds'][0]
    row.update(largest=row['largest'] * 1024, bound=row['bound'] * 1024)


def reword(golden):
    golden['changelog'][-1].update(reason='it was always so')


@case
def a_golden_that_was_edited_by_hand_is_not_compared_with():
    for change in (widen, reword, spoil, lambda g: g['calibration'].update(layers=99),
                   lambda g: g['calibration'].update(longest_reduction=1 << 20), lambda g: g.pop('calibration')):
        target = good()
        change_json(target / GOLD, change)
        expect(GOLDEN, target, says=["golden.json: 'seal'", 'edited by hand'])
        tool(GOLDEN, 'check', target, says=[f'not ok {target}', 'edited by hand'])


@case
def check_finds_every_kind_of_bad_golden():
    for change, says in [(lambda t: change_golden(t / GOLD, zero), 'placeholder'),
                         (lambda t: change_golden(t / GOLD, spoil), 'the last changelog entry explains'),
                         (lambda t: change_golden(t / GOLD, lambda g: g['changelog'][-1].update(reason=' ')), 'no reason'),
                         (lambda t: change_golden(t / GOLD, lambda g: g.update(changelog=[])), 'changelog is empty'),
                         (lambda t: change_json(t / GOLD, lambda g: g.update(leaves=[])), 'is empty'),
                         (lambda t: (t / GOLD).write_text((t / GOLD).read_text()[:5000]), GOLD),
                         (lambda t: (t / GOLD).write_text('<<<<<<< HEAD\n'), 'merge conflict'),
                         (lambda t: change_json(t / GOLD, spoil), 'edited by hand'),
                         (lambda t: change_json(t / GOLD, widen), 'edited by hand'),
                         (lambda t: change_json(t / GOLD, reword), 'edited by hand'),
                         (lambda t: (t / GOLD).unlink(), 'there is no golden.json'),
                         (lambda t: (t / 'config.yml').unlink(), 'orphan'),
                         (lambda t: (t / PENDING).write_text('{}'), 'awaits review')]:
        target = good()
        change(target)
        tool(GOLDEN, 'check', '--no-run', target, says=[f'not ok {target}', says, '1 failed'])
    tool(EQUAL, 'check', '--no-run', good(), says=['0 failed'])


@case
def check_runs_each_case_and_tells_environment_from_code():
    for key, says in [(None, None), ('compiler', 'the environment moved'), ('commit', 'the code moved')]:
        target = other()
        if key:
            now = json.loads((pending_once() / PENDING).read_text())['golden']['provenance']
            change_golden(target / GOLD, lambda g: g['provenance'].update(now, **{key: 'another'}))
        tool(DIFFERENT, 'check', '--no-pending', target, says=['not reproduced'] + ([says] if says else []))
        check(not (target / PENDING).exists(), 'check --no-pending wrote one')


@case
def the_inventory_is_held_both_ways():
    root = folder('root')
    for name in ('one', 'deep/two'):
        shutil.copytree(ROOT / 'golden/unpipelined', root / name)
    tool(EQUAL, 'check', '--no-run', root, says=['2 goldens'])
    (root / 'inventory').write_text('# ours\none\n\ndeep/two # far\n')
    tool(EQUAL, 'check', '--no-run', root, says=['2 goldens'])
    (root / 'inventory').write_text('one\nthree\n')
    tool(GOLDEN, 'check', '--no-run', root, says=[f'not ok {root}/deep/two: the inventory does not name',
                                                  f'not ok {root}/three: there is neither'])
    tool(EQUAL, 'list', root, says=['recorded: ', 'not in the inventory', 'lost', 'reason: schema abpipe-golden/2'])
    refuse('check', folder('empty'), tool='ab_golden', says=['holds no case'])
    refuse('check', root / 'none', tool='ab_golden', says=['there is no folder'])


@case
def names_of_cases_steer_nothing():
    """Names with a line of check, with ESC, with a character that turns the line and with a command for GitHub."""
    root = folder('root')
    names = ('ca\nok case', '\x1b[31mred', '\u202eesrever', '##[error]')
    for name in names:
        shutil.copytree(pending_once(), root / name)
    (root / 'inventory').write_bytes(b'lost\xff\n')
    shown = ['ca\\x0aok case', '\\x1b[31mred', '\\xe2\\x80\\xaeesrever', '#\\x23[error]']

    def plain(code, *words, says=(), **options):
        r = tool(code, *words, says=says, **options)
        check(not re.search('[\x1b\u202e\udcff]|^ok case|##\\[', r.out + r.err, flags=re.M), f'{r}: {r.out}{r.err}')
    plain(GOLDEN, 'check', '--no-run', root, says=[f'not ok {root}/{s}: ' for s in [*shown, 'lost\\xff']])
    plain(EQUAL, 'list', root, says=[f'{root}/{s}\n' for s in [*shown, 'lost\\xff']])
    plain(EQUAL, 'review', root, says=[f'{root}/{s}: ' for s in shown])
    plain(EQUAL, 'review', root / names[1], says=["accept: ab_golden accept $'"])
    for name, text in zip(names, shown):
        plain(EQUAL, 'reject', root / name, says=[f'removed {root}/{text}/{PENDING}'])
    plain(EQUAL, 'record', root / names[0], '--reason', 'test', says=[f'recorded {root}/{shown[0]}/{GOLD}'])
    plain(USAGE, 'record', root / names[0], '--reason', 'a\u202eb c d', says=['the reason', 'expected one line'])


@case
def the_goldens_of_the_repository_are_in_order():
    tool(EQUAL, 'check', '--no-run', ROOT / 'golden', says=['0 failed'])


@case
def a_bundle_becomes_a_case():
    target = folder() / 'deep' / 'e01'
    tool(EQUAL, 'import', REFERENCE / 'e01_simple', target, says=['imported'])
    golden = json.loads((target / GOLD).read_text())
    check('MaxText commit' in golden['provenance']['origin'], f"{golden['provenance']}")
    tool(EQUAL, 'check', target)
    expect(EQUAL, target, says=['linen against golden', 'linen against MaxText'])
    tool(USAGE, 'import', REFERENCE / 'e01_simple', target, says=['not empty'])
    tool(USAGE, 'import', ROOT / 'golden/main', folder() / 'x', says=['no bundle'])
    wrong, place = folder() / 'wrong', folder()
    shutil.copytree(REFERENCE / 'e01_simple', wrong)
    text = (wrong / 'expected.json').read_text()
    loss = json.loads(text)['loss']['value']
    change_json(wrong / 'expected.json', lambda e: e['loss'].update(value=2 * loss + 1))
    r = Run('import', wrong, place / 'x', tool='ab_golden').finish()
    check(r.code != EQUAL and not list(place.iterdir()), f'{r}: exit {r.code}: {list(place.iterdir())}')


@case
def commands_at_the_same_time_do_not_disturb_each_other():
    target = pending()
    runs = [Run('accept', target, '--reason', f'number {i}', tool='ab_golden') for i in range(3)]
    runs = [r.finish() for r in runs]
    check(sorted(r.code for r in runs) == [EQUAL, USAGE, USAGE], f'{[(r.code, r.err) for r in runs]}')
    reasons = [e['reason'] for e in json.loads((target / GOLD).read_text())['changelog'] if 'number' in e['reason']]
    check(len(reasons) == 1, f'{reasons}')
    target = other()
    runs = [Run(target) for _ in range(2)] + [Run('record', target, '--reason', 'at the same time', tool='ab_golden')]
    check([r.finish().code for r in runs][2] == EQUAL, runs[2].err)
    tool(EQUAL, 'list', target)
    names = {p.name for p in target.iterdir()}
    check(names <= {'config.yml', GOLD, PENDING}, f'{names}')


@case
def a_killed_command_leaves_the_old_golden_or_the_new():
    target = pending()
    old, codes = (target / GOLD).read_bytes(), []
    for i in range(6):
        r = Run('accept', target, '--reason', 'to be killed', tool='ab_golden')
        time.sleep(0.3 * i)
        r.process.send_signal(signal.SIGKILL)
        r.process.communicate()
        codes.append(r.process.returncode)
        now = (target / GOLD).read_bytes()
        new = now != old and json.loads(now)['changelog'][-1]['reason'] == 'to be killed'
        check(now == old or new, 'the golden is neither')
        tool(EQUAL, 'list', target)
        if new:
            break
    check(-signal.SIGKILL in codes, f'{codes}')
    (target / '.ab-tmp-999999-0').write_text('half a golden')
    (target / PENDING).write_text('{}')
    tool(EQUAL, 'list', target)
    tool(EQUAL, 'reject', target)
    names = {p.name for p in target.iterdir()}
    check(names == {'config.yml', GOLD}, f'{names}')


def at_a_terminal(target, *answers):
    master, slave = pty.openpty()
    process = subprocess.Popen([str(BUILD / 'tools/ab_golden'), 'review', *map(str, target)], stdin=slave, stdout=slave,
                               stderr=slave, env=dict(os.environ, CI='', OMP_NUM_THREADS='2'))
    os.close(slave)
    os.write(master, ''.join(a + '\n' for a in answers).encode())
    said = b''
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        said += part
    os.close(master)
    return process.wait(), said.decode()


@case
def at_a_terminal_review_asks():
    skipped, rejected, accepted, left = (pending() for _ in range(4))
    code, said = at_a_terminal([skipped, rejected, accepted, left], 'what', 's', 'r', 'a', 'seen and meant', 'q')
    check(code == EQUAL and '[a]ccept' in said, f'{code}: {said}')
    there = [(t / PENDING).exists() for t in (skipped, rejected, accepted, left)]
    check(there == [True, False, False, True], f'{there}: {said}')
    check(json.loads((accepted / GOLD).read_text())['changelog'][-1]['reason'] == 'seen and meant', 'another reason')
    code, said = at_a_terminal([skipped], 'a', '')
    check(code == USAGE and (skipped / PENDING).exists(), f'{code}: {said}')


main()
