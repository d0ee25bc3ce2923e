"""The doors from outside: signals to stop, outputs that take nothing, leftovers of the dead, hostile names."""
import os
import pathlib
import resource
import signal
import time

from e2e import BUILD, DIFFERENT, EQUAL, GOLDEN, SMALL, USAGE, Run, case, check, folder, main
from sweep import ACTS, OWN, TOOLS, Act, Place, contents, same, temporaries, undisturbed, whole

STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
MOMENTS = 6
NAMED = {act.name: act for act in ACTS}


def descendants(place):
    """Processes that work in the place's folders."""
    return [words for words in commands() if str(place.scratch) in words]


@case
def a_signal_to_stop_leaves_no_process_and_nothing_half_done():
    runs = 0
    for act in (NAMED['compare'], NAMED['record'], NAMED['import'], NAMED['accept']):
        undisturbed(act)
        place = Place()
        started = time.monotonic()
        place.run(act, environment={'AB_REPLAY': ''})
        whole_run = time.monotonic() - started
        for i in range(MOMENTS):
            number = STOPS[i % 3]
            place.prepare(act.template)
            process = place.start(act, environment={'AB_REPLAY': ''})
            time.sleep(0.05 + whole_run * i / MOMENTS)
            process.send_signal(number)
            ran = place.collect(process)
            said = f'{act.name} after {number.name}: exit {ran.code}: {ran.err}'
            check(ran.code == -number and number.name in ran.err or same(act, ran), said)
            check(not temporaries(ran), f'{said}left {temporaries(ran)}')
            check(not descendants(place), f'{said}: processes {descendants(place)}')
            whole(act, ran)
            runs += 1
    print(f'# {runs} runs')


@case
def a_command_as_a_side_ends_with_the_tool():
    for number in STOPS:
        r = Run(SMALL, '--b-cmd', f'sleep 1000 & sleep 1000; # {number}')
        while f'/bin/sh -c sleep 1000 & sleep 1000; # {number}' not in commands():
            check(r.process.poll() is None, f'{r}: ended early')
            time.sleep(0.05)
        r.process.send_signal(number)
        r.finish(stopped=number)


@case
def a_measurement_that_is_stopped_leaves_no_dumps():
    for number in STOPS:
        r = Run('--case', 'diff', '--mib', '64', tool='bench')
        while not any(r.scratch.glob('.ab-tmp-d-*/*')):
            check(r.process.poll() is None, f'{r}: ended early')
            time.sleep(0.01)
        r.process.send_signal(number)
        r.finish(stopped=number)


def commands():
    """The command line of every process."""
    said = []
    for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
        try:
            said.append(path.read_bytes().decode(errors='replace').replace('\0', ' ').strip())
        except OSError:
            continue
    return said


@case
def a_signal_that_is_ignored_stays_ignored():
    place, act = Place(), NAMED['check']
    undisturbed(act)
    place.prepare(act.template)
    process = place.start(act, environment={'AB_REPLAY': ''}, before=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    time.sleep(0.1)
    process.send_signal(signal.SIGHUP)
    check(same(act, place.collect(process)), 'nohup does not hold')


def close_stdout():
    os.close(1)


@case
def a_standard_output_that_takes_nothing_is_exit_2():
    runs = 0
    acts = [a for a in ACTS if a.name != 'pending'] + [
        Act(f'{tool} {words}', tool, words, 'pending', EQUAL) for tool, words in
        [('golden', ['list', 'case']), ('golden', ['reject', 'case']), ('golden', ['check', '--no-run', 'case']),
         ('compare', ['--help']), ('golden', ['--help']), ('diff', ['--help']), ('compare', ['--list-routes'])]]
    for act in acts:
        for how in ('full', 'closed', 'read only'):
            place = Place()
            undisturbed(NAMED['compare'])
            with open('/dev/full', 'w') as full, open('/dev/null') as read_only:
                ran = place.run(act, stdout={'full': full, 'closed': None, 'read only': read_only}[how],
                                before=close_stdout if how == 'closed' else None)
            check(ran.code == USAGE and 'standard output' in ran.err, f'{act.name}, stdout {how}: exit {ran.code}: '
                  f'{ran.err}')
            runs += 1
    print(f'# {runs} runs')


@case
def a_report_that_takes_nothing_is_exit_2():
    for words in (['--json', '/dev/full'], ['--json', '/proc/version'], ['--json', '/dev/null/x'], ['--json', '.'],
                  ['--json', 'out'], ['--json', 'none/x'], ['--json', ''], ['--dump', '/proc/x'], ['--dump', '/dev/full']):
        act = Act('compare', 'compare', ['case', *words], 'good', USAGE)
        undisturbed(NAMED['compare'])
        ran = Place().run(act)
        check(ran.code == USAGE and ran.err, f'{words}: exit {ran.code}: {ran.out}{ran.err}')
        check(not temporaries(ran), f'{words}: left {temporaries(ran)}')


@case
def a_limit_on_file_size_leaves_the_old_or_the_new():
    runs = 0
    for act in (NAMED['compare'], NAMED['pending'], NAMED['record'], NAMED['accept'], NAMED['import']):
        undisturbed(act)
        for size in [0, 1, 4096, 16384, 30000, 50000, 54000, 60000, 1 << 20]:
            ran = Place().run(act, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
            whole(act, ran)
            check(same(act, ran) or ran.code not in (act.code, EQUAL), f'{act.name} at {size}: exit {ran.code}: {ran.err}')
            check(ran.code >= 0 and not temporaries(ran), f'{act.name} at {size}: {ran.code} {temporaries(ran)}')
            runs += 1
    print(f'# {runs} runs')


@case
def a_reader_that_leaves_early_changes_no_verdict_into_success():
    for words, tool in [(['check', 'case'], 'golden'), (['list', 'case'], 'golden'), (['case'], 'compare')]:
        place = Place()
        undisturbed(NAMED['check'])
        place.prepare('pending')
        command = f'"{TOOLS[tool]}" {" ".join(words)} | head -c 1 >/dev/null; exit ${{PIPESTATUS[0]}}'
        ran = place.collect(place.start_words(['bash', '-c', command]))
        wanted = {'check': (GOLDEN, USAGE), 'list': (EQUAL, USAGE), 'case': (DIFFERENT, USAGE)}[words[0]]
        check(ran.code in wanted, f'{command}: exit {ran.code}: {ran.err}')


@case
def the_next_run_removes_what_the_dead_left_and_nothing_else():
    act = NAMED['compare']
    undisturbed(act)
    place = Place()
    place.prepare(act.template)
    (place.scratch / '.ab-tmp-d-aaaaaa/deep/er').mkdir(parents=True)
    (place.scratch / '.ab-tmp-d-aaaaaa/deep/er/a.values').write_text('half')
    outside = folder('outside')
    (outside / 'mine').write_text('mine')
    (place.scratch / '.ab-tmp-d-aaaaaa/link').symlink_to(outside)
    (place.scratch / '.ab-tmp-d-link').symlink_to(outside)
    (place.scratch / '.ab-tmp-other').mkdir()
    (place.root / 'out/.ab-tmp-999999-0').write_text('half a report')
    (place.root / 'out/.ab-tmp-d-bbbbbb').mkdir()
    living = place.start_words([BUILD / 'tools/ab_compare', SMALL, '--b-cmd', 'sleep 1000'])
    while not [p for p in place.scratch.iterdir() if p.name.startswith('.ab-tmp-d-') and
               p.name not in ('.ab-tmp-d-aaaaaa', '.ab-tmp-d-link')]:
        time.sleep(0.05)
    ran = place.collect(place.start(act))
    check(same(act, ran), f'exit {ran.code}: {ran.err}')
    left = sorted(ran.left)
    check(len(left) == 4 and '.ab-tmp-d-link' in left and '.ab-tmp-other' in left, f'{left}')
    check(not [p for p in ran.files if OWN in p], f'{temporaries(ran)}')
    check(contents(outside) == {'mine': b'mine'}, 'a link was followed')
    living.send_signal(signal.SIGTERM)
    check(place.collect(living).code == -signal.SIGTERM, f'the other run: exit {living.returncode}')
    check(len(list(place.scratch.iterdir())) == 2, f'{list(place.scratch.iterdir())}')


main()
