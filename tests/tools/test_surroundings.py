#!/usr/bin/env python3
"""What stands around a run and must not matter: locale, folder, HOME, TMPDIR, descriptors, clock, objects, others.

Outputs are the same bytes as in plain surroundings, or the tool says in one sentence why it cannot run. Sides compute
where they could be touched, else they are replayed.
"""
import itertools
import json
import os
import pathlib
import subprocess

from e2e import BUILD, DIFFERENT, EQUAL, GOLDEN, SMALL, USAGE, case, check, expect, folder, main
from sweep import ACTS, Place, TOOLS, base, same, temporaries, undisturbed, whole

NAMED = {act.name: act for act in ACTS}
SEEN = [NAMED['compare'], NAMED['check'], NAMED['diff']]
COMPUTED = {'AB_REPLAY': ''}
place = Place()


def unchanged(what, environment, acts=SEEN, before=None):
    for act in acts:
        undisturbed(act)
        ran = place.run(act, environment=environment, before=before)
        check(same(act, ran) and not temporaries(ran),
              f'{act.name}, {what}: exit {ran.code}: {ran.out[:300]}{ran.err[:300]} {temporaries(ran)}')


def refused(what, says, environment, act, before=None):
    undisturbed(act)
    ran = place.run(act, environment=environment, before=before)
    check(ran.code == USAGE and says in ran.out + ran.err and not temporaries(ran),
          f'{act.name}, {what}: exit {ran.code}: {ran.out}{ran.err}')
    check('check' in act.name or ran.err.count('\n') == 1, f'{act.name}, {what}: not one sentence: {ran.err}')


def preloaded(name, **environment):
    return dict(LD_PRELOAD=str(BUILD / name), ASAN_OPTIONS='verify_asan_link_order=0', **environment)


def printed(program, environment):
    return subprocess.run(['python3', '-c', program], env=dict(os.environ, **environment), check=True,
                          capture_output=True, text=True).stdout.strip()


@case
def no_locale_changes_a_byte():
    made = folder('locales')
    for name, currency in ('de_DE', 'EUR'), ('tr_TR', 'TRY'), ('fa_IR', 'IRR'):
        subprocess.run(['localedef', '-i', name, '-f', 'UTF-8', made / f'{name}.UTF-8'], check=True,
                       capture_output=True)
        there = dict(LOCPATH=str(made), LC_ALL=f'{name}.UTF-8', LANG=f'{name}.UTF-8')
        said = subprocess.run(['locale', 'int_curr_symbol'], env=dict(os.environ, **there), check=True,
                              capture_output=True)
        check(said.stdout.decode().strip() == currency, f'{name} is not there: {said}')
        unchanged(name, there | COMPUTED, SEEN[:1])
        unchanged(name, there, SEEN[1:])
    for broken in 'xx_YY.UTF-8', '', 'C.nonsense', '../../etc', 'x' * 5000:
        unchanged(f'LC_ALL={broken[:20]}', dict(LC_ALL=broken, LC_NUMERIC=broken))


def leave_and_remove():
    os.chdir(folder('gone'))
    os.rmdir(os.getcwd())


@case
def a_working_folder_that_is_gone_is_not_needed():
    for act in SEEN:
        absolute = act._replace(words=[place.root / w if w in ('case',) or str(w).startswith('out/') else w
                                       for w in act.words])
        undisturbed(act)
        plain, ran = place.run(absolute), place.run(absolute, before=leave_and_remove)
        check(plain.code == act.code and ran[:2] == plain[:2] and ran.files == plain.files and not temporaries(ran),
              f'{act.name}: exit {ran.code}: {ran.out[:300]}{ran.err}')
    refused('working folder gone', 'No such file', {}, NAMED['compare']._replace(words=['case.yml']), leave_and_remove)
    refused('working folder gone', 'No such file', {}, NAMED['diff']._replace(words=['case', 'case']), leave_and_remove)


@case
def home_is_not_needed_and_a_missing_tmpdir_is_named():
    plain = folder() / 'plain'
    plain.write_text('')
    for home in '', '/nowhere', str(plain):
        unchanged(f'HOME={home}', {'HOME': home})
    for there in '/nowhere', str(plain):
        for act in NAMED['compare'], NAMED['check'], NAMED['record']:
            refused(f'TMPDIR={there}', f"cannot make a scratch folder in '{there}'", {'TMPDIR': there}, act)
        unchanged(f'TMPDIR={there}', {'TMPDIR': there}, [NAMED['diff']])
    unchanged('TMPDIR=', {'TMPDIR': ''})


@case
def closed_descriptors_harm_no_file():
    for count in 1, 2, 3:
        for closed in itertools.combinations(range(3), count):
            def close(closed=closed):
                for fd in closed:
                    os.close(fd)
            for act in SEEN:
                undisturbed(act)
                ran = place.run(act, before=close)
                whole(act, ran)
                check((ran.code == USAGE if 1 in closed else same(act, ran)) and not temporaries(ran),
                      f'{act.name} without {closed}: exit {ran.code}: {ran.out[:200]}{ran.err}')


@case
def stray_variables_are_named_and_change_nothing():
    stray = {'M_STEPS': '1', 'M_NO_SUCH_KEY': '7', 'M_': 'x', 'M_Steps': '1', 'm_steps': '1'}
    compare = NAMED['compare']._replace(words=['case'])
    undisturbed(NAMED['compare'])
    plain, ran = place.run(compare), place.run(compare, environment=stray)
    notes = [line for line in ran.out.splitlines() if line not in plain.out.splitlines()]
    check(ran.code == EQUAL and sorted(notes) == [
        'note: M_ is set, but there is no such key',
        'note: M_NO_SUCH_KEY is set, but there is no such key',
        'note: M_STEPS is set and not read: the config of a bundle stands',
        "note: M_Steps is set and not read: the variable of key 'steps' is M_STEPS"], f'exit {ran.code}: {notes}')
    unchanged('stray variables', stray, [NAMED['check'], NAMED['diff']])


@case
def a_clock_that_jumps_changes_nothing():
    jumps = preloaded('tests/shim/shim.so', AB_SHIM_CLOCK='1')
    looks = json.loads(printed('import time; print([time.time() for _ in range(3)])', jumps))
    check(max(looks) - min(looks) > 1e7 and looks != sorted(looks), f'the clock does not jump: {looks}')
    unchanged('a clock that jumps', jumps | COMPUTED, SEEN[:1])
    unchanged('a clock that jumps', jumps, [*SEEN[1:], NAMED['record'], NAMED['accept']])
    expect(EQUAL, SMALL, '--timeout', '100', environment=jumps | {'SOURCE_DATE_EPOCH': ''})


@case
def an_object_built_with_fast_math_changes_nothing():
    loaded = preloaded('tests/sides/fast_math.so')
    check(float(printed('print(2.2250738585072014e-308 / float("2"))', loaded)) == 0, 'it does not flush to zero')
    unchanged('fast math', loaded | COMPUTED)


def at_once(acts):
    """All in one folder, started together; what each said."""
    processes = [place.start(act) for act in acts]
    return [place.collect(process) for process in processes]


@case
def eight_readers_of_one_golden_say_what_one_says():
    for act in NAMED['check'], NAMED['compare']._replace(words=['case']):
        undisturbed(NAMED['check'])
        plain = place.run(act)
        for ran in at_once([act] * 8):
            check(ran[:2] == plain[:2], f'{act.name}: exit {ran.code}: {ran.out[:300]}{ran.err}')


@case
def eight_writers_of_one_golden_lose_nothing():
    for name in 'record', 'check', 'pending', 'accept':
        undisturbed(NAMED[name])
    acts = [NAMED[name] for name in ('record', 'check', 'pending', 'accept')] * 2
    for turn in range(4):
        place.prepare('pending')
        written = 1
        for act, ran in zip(acts[turn:] + acts[:turn], at_once(acts[turn:] + acts[:turn])):
            check(ran.code in (EQUAL, DIFFERENT, USAGE, GOLDEN) and (ran.code == EQUAL or ran.out + ran.err),
                  f'{act.name}: exit {ran.code}: {ran.out[:300]}{ran.err}')
            written += ran.code == EQUAL and act.name in ('record', 'accept')
        changes = len(json.loads((place.root / 'case/golden.json').read_text())['changelog'])
        check(changes == written, f'the changelog has {changes} entries, expected {written}')
        (place.root / 'case/golden.pending.json').unlink(missing_ok=True)
        ran = place.collect(place.start(NAMED['check']))
        check(ran.code == EQUAL and not temporaries(ran), f'afterwards: exit {ran.code}: {ran.out}{ran.err}')


main()
