#!/usr/bin/env python3
"""Report files, terminal and CI: every form of one comparison and of a suite, hostile names, colour, progress."""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET

import e2e
from e2e import DIFFERENT, EQUAL, REFERENCE, ROOT, SMALL, TOOL, USAGE, WORK, Run, build, case, check, refuse
from json_schema import Schemas

SCHEMAS = Schemas(ROOT / 'docs')
RED = [str(REFERENCE / 'p04_llama2'), 'rope_max_timescale=500000']
EVIL = 'x`|<script>&]]>##[e]\n::error::p%0A\x1b[2J@root.yml'


def expect(code, *arguments, **options):
    r = Run(*arguments, **options).finish()
    check(r.code == code, f'{r.arguments}: exit {r.code}, expected {code}\n{r.out}{r.err}')
    return r


def folder():
    return pathlib.Path(tempfile.mkdtemp(dir=WORK))


def forms(path):
    return ['--json', path / 'r.json', '--junit', path / 'r.xml', '--markdown', path / 'r.md']


def valid(path, schema):
    fault = SCHEMAS.fault(json.loads(path.read_text()), schema)
    check(not fault, f'{path}: {fault}')


def totals(element, cases):
    """The totals of a test suite (or of all) are those of its cases."""
    found = {'tests': len(cases), 'failures': sum(c.find('failure') is not None for c in cases),
             'errors': sum(c.find('error') is not None for c in cases),
             'skipped': sum(c.find('skipped') is not None for c in cases)}
    said = {k: int(element.get(k)) for k in found}
    check(said == found, f'totals {said}, expected {found}')
    return found


def junit(path):
    root = ET.parse(path).getroot()
    check(root.tag == 'testsuites', root.tag)
    suites = root.findall('testsuite')
    for s in suites:
        totals(s, s.findall('testcase'))
    names = [(c.get('classname'), c.get('name')) for c in root.iter('testcase')]
    check(len(set(names)) == len(names), f'names repeat: {names}')
    return suites, totals(root, list(root.iter('testcase')))


@case
def all_forms_of_a_green():
    d = folder()
    r = expect(EQUAL, SMALL, *forms(d))
    check(r.out.startswith('EQUAL: ') and '\x1b' not in r.out and '::' not in r.out, r.out)
    valid(d / 'r.json', 'report.schema.json')
    suites, found = junit(d / 'r.xml')
    check(found['failures'] == found['errors'] == 0 and found['tests'] > 30, found)
    values = {p.get('name'): p.get('value') for p in suites[0].iter('property')}
    check(values['route_a'] == 'linen' and values['cause'] == 'equal' and 'f32' in values['numerics'], values)
    text = (d / 'r.md').read_text()
    check(text.startswith('**EQUAL**: <code>linen against nnx</code>') and 'controls: ' in text, text)


@case
def all_forms_of_a_red():
    d = folder()
    env = {'GITHUB_STEP_SUMMARY': str(d / 'summary.md'), 'GITHUB_WORKSPACE': str(ROOT)}
    (d / 'summary.md').write_text('earlier\n')
    r = expect(DIFFERENT, *RED, *forms(d), '--github', environment=env)
    valid(d / 'r.json', 'report.schema.json')
    _, found = junit(d / 'r.xml')
    check(found['failures'] > 3 and found['errors'] == 0, found)
    text = ''.join(ET.parse(d / 'r.xml').getroot().itertext())
    for part in ('expected: ', 'actual: ', 'bound: relative L2 <= ', 'first divergence: step 0', 'cause: both moved'):
        check(part in text, f'no {part} in {text[:2000]}')
    commands = [line for line in r.out.splitlines() if line.startswith('::')]
    where = '::error file=tests/fixtures/reference/p04_llama2/config.yml,line=1,'
    check(len(commands) == 2 and all(c.startswith(where) for c in commands), commands)
    summary = (d / 'summary.md').read_text()
    check(summary == 'earlier\n' + (d / 'r.md').read_text(), summary)


@case
def all_forms_of_a_suite():
    d = folder()
    (d / 'list.yml').write_text(f'''cases:
  - name: green
    case: {SMALL}
  - name: red
    case: {RED[0]}
    overrides: [{RED[1]}]
  - name: none
    case: nowhere.yml
  - name: left
    skip: not built
''')
    r = expect(USAGE, '--suite', d / 'list.yml', *forms(d), '--github')
    check(r.out.startswith('RED: suite '), r.out)
    valid(d / 'r.json', 'suite.schema.json')
    suites, found = junit(d / 'r.xml')
    check([s.get('name') for s in suites] == ['green', 'red', 'none', 'left'], ET.tostring(suites[0]))
    check(found['skipped'] == 1 and found['errors'] == 1 and found['failures'] > 3, found)
    text = (d / 'r.md').read_text()
    check(text.startswith('**RED**: suite ') and '; 1 of 3 cases equal' in text, text)
    check('| <code>left</code> | skipped | <code>not built</code> |' in text, text)
    check(r.out.count('::error ') == 3 and r.out.count('::warning ') > 0, r.out)


@case
def a_wrong_key_is_annotated_where_it_stands():
    d, good = folder(), pathlib.Path(SMALL).read_text()
    (d / 'wrong.yml').write_text(good.replace('steps: 2', 'steps: many'))
    (d / 'unknown.yml').write_text(good + 'stepz: 2\n')
    (d / 'own.yml').write_text('# nothing wrong here\nbase_config: wrong.yml\n')
    for name, file, line in (('wrong', 'wrong', 5), ('unknown', 'unknown', good.count('\n') + 1), ('own', 'wrong', 5)):
        r = expect(USAGE, d / f'{name}.yml', '--github')
        check(f'::error file={d}/{file}.yml,line={line},' in r.out and r.out.count('::error ') == 1, r.out)


@case
def the_suite_schema_can_fail():
    d = folder()
    (d / 'list.yml').write_text(f'cases:\n  - name: green\n    case: {SMALL}\n')
    expect(EQUAL, '--suite', d / 'list.yml', '--json', d / 'r.json')
    root = json.loads((d / 'r.json').read_text())
    check(not SCHEMAS.fault(root, 'suite.schema.json'), 'the report as it is')
    for path in (['exit_code'], ['cases', 0, 'matrix', 'losses'], ['cases', 0, 'report', 'cause'],
                 ['cases', 0, 'report', 'comparisons', 0, 'failing']):
        wrong = json.loads(json.dumps(root))
        at = wrong
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = 'nonsense'
        check(SCHEMAS.fault(wrong, 'suite.schema.json'), f'{path} may be anything')


@case
def one_report_on_standard_output_alone():
    for option, first in (('--json', '{'), ('--junit', '<?xml'), ('--markdown', '**EQUAL**')):
        r = expect(EQUAL, SMALL, option, '-', '--github')
        check(r.out.startswith(first) and '\nEQUAL:' not in r.out.replace('<pre>\nEQUAL:', ''), r.out[:300])
        check('::warning ' in r.err and '\n::' not in r.out, r.err)
    r = expect(USAGE, SMALL, '--json', '-', '--junit', '-')
    check('expected at most one report on standard output' in r.err, r.err)


@case
def an_annotation_points_at_the_line_of_the_golden():
    d = folder() / 'circ_storage'
    shutil.copytree(ROOT / 'golden/circ_storage', d)
    wrong = build(f'exec "{TOOL}" "$@" rope_max_timescale=500000')
    r = expect(DIFFERENT, d, '--a-bin', wrong, '--github', '--json', d / 'r.json')
    lines = [int(n) for n in re.findall(r'::error file=[^,]*golden.json,line=(\d+),', r.out)]
    check(len(lines) == 1 and lines[0] > 1, r.out)
    report = json.loads((d / 'r.json').read_text())
    worst = next(c['worst'] for c in report['comparisons'] if c['b'] == 'golden' and c['exit_code'] == DIFFERENT)
    text = (d / 'golden.json').read_text().splitlines()[:lines[0]]
    check(f'"{worst["tensor"]}"' in text[-1], f'{text[-1]} of {worst}')
    step = [line for line in text if line.startswith('      "step": ')][-1]
    check(step == f'      "step": {worst["step"]},', f'{step} of {worst}')


@case
def what_cannot_be_written_is_exit_2():
    for option in ('--json', '--junit', '--markdown'):
        expect(USAGE, SMALL, option, '/dev/full')
        for place in (WORK, '', '/', '/nowhere/r', '/dev/null/r'):
            refuse(SMALL, option, place, says=[f'{option}: '])
    expect(USAGE, SMALL, '--github', environment={'GITHUB_STEP_SUMMARY': '/nowhere/summary.md'})
    os.mkfifo(fifo := folder() / 'summary.md')
    expect(USAGE, SMALL, '--github', environment={'GITHUB_STEP_SUMMARY': str(fifo)})
    check('expected auto, always or never' in expect(USAGE, SMALL, '--color', 'pink').err, 'pink')


@case
def one_place_for_two_outputs_is_refused():
    d = folder()
    (d / 'there').write_text('as it was')
    (d / 'linked').symlink_to('there')
    (d / 'hard').hardlink_to(d / 'there')
    for options in (['--json', 'new', '--junit', './new'], ['--json', 'there', '--markdown', 'linked'],
                    ['--junit', 'hard', '--markdown', d / 'there'], ['--json', 'new', '--dump', f'{d}/new'],
                    ['--dump', 'new', '--save-artifact', 'new/']):
        refuse(SMALL, *options, cwd=d, says=[f"{options[0]} '{options[1]}' and {options[2]} '{options[3]}' are one place"])
        check(sorted(p.name for p in d.iterdir()) == ['hard', 'linked', 'there'], options)
    check((d / 'there').read_text() == 'as it was', 'it was written')
    expect(EQUAL, SMALL, '--json', '/dev/null', '--junit', '/dev/null')


def contents(d):
    return {p: p.read_bytes() for p in d.rglob('*') if p.is_file()}


@case
def no_report_takes_the_place_of_an_input():
    d = folder()
    shutil.copytree(ROOT / 'golden/main', d / 'main')
    shutil.copytree(REFERENCE / 't01', d / 't01')
    shutil.copy(SMALL, d / 'config')
    shutil.copy(d / 'main/golden.json', d / 'numbers')
    (d / 'linked').symlink_to('main/config.yml')
    (d / 'list').write_text('cases:\n  - name: main\n    case: main\n')
    before, tensors = contents(d), d / 't01/params.safetensors'
    for words, output, tool in ((['config'], 'config', 'compare'), (['main'], 'main/config.yml', 'compare'),
                                (['main'], 'main/golden.json', 'compare'), (['main'], 'linked', 'compare'),
                                (['config'], 'main/golden.pending.json', 'compare'),
                                (['main', '--golden', 'numbers'], './numbers', 'compare'),
                                (['t01'], tensors, 'compare'), (['t01'], 't01/expected.json', 'compare'),
                                (['--suite', 'list'], 'list', 'compare'), ([tensors, tensors], tensors, 'diff'),
                                (['t01', 't01'], 't01/expected.json', 'diff')):
        for option in ('--json', '--junit', '--markdown'):
            refuse(*words, option, output, tool=f'ab_{tool}', cwd=d, says=[f"{option} '{output}' "])
            check(contents(d) == before, f'{words} {option} {output}: something was written')
    for target in ('main', 'main/config.yml'):
        refuse(target, '--save-artifact', 'main', cwd=d, says=["--save-artifact 'main' is what is read"])


@case
def a_run_that_could_not_begin_says_so_in_its_files():
    d = folder()
    r = expect(USAGE, 'nowhere.yml', *forms(d), '--github')
    valid(d / 'r.json', 'report.schema.json')
    _, found = junit(d / 'r.xml')
    check(found['errors'] == 1 == found['tests'], found)
    check((d / 'r.md').read_text().startswith('**ERROR**: <code>nowhere.yml</code>'), (d / 'r.md').read_text())
    check(r.out.startswith('::error file=nowhere.yml'), r.out)


@case
def hostile_paths_steer_nothing():
    d = folder()
    path = d / EVIL
    shutil.copy(SMALL, path)
    env = {'GITHUB_STEP_SUMMARY': str(d / 'summary.md')}
    for arguments, code in (([path], EQUAL), ([path, 'steps=none'], USAGE), ([path, 'learning_rate=nan'], None)):
        r = Run(*arguments, *forms(d), '--github', environment=env).finish()
        check(code in (None, r.code), f'{r.code} {r.out}{r.err}')
        valid(d / 'r.json', 'report.schema.json')
        junit(d / 'r.xml')
        text = (d / 'r.md').read_text()
        check('<script' not in text and '\x1b' not in text and ']]>' not in text, text)
        for line in (r.out + r.err).splitlines():
            check('\x1b' not in line and '##[' not in line, line)
            check(not line.strip().startswith('::') or re.match(r'::(error|warning) (file|title)=', line), line)
            check(not line.startswith('::') or '%0A' not in line, line)


@case
def the_reproduce_line_repeats_the_run():
    d = folder()
    path = d / "new\nline's.yml"
    shutil.copy(SMALL, path)
    env = {'M_STEPS': '1', 'M_STEPZ': '1', 'M_lower': '1'}
    r = expect(EQUAL, path, 'learning_rate=0.01', environment=env)
    line, = [x for x in r.out.splitlines() if x.startswith('reproduce: ')]
    check('M_STEPS=1 ' in line and 'M_STEPZ' not in line, line)
    check('note: M_STEPZ is set, but there is no such key; the nearest is M_STEPS' in r.out, r.out)
    check('note: M_lower is set, but there is no such key' in r.out and 'M_lower' not in line, r.out)
    again = subprocess.run(['bash', '-c', line.removeprefix('reproduce: ')], capture_output=True, text=True, cwd=ROOT)
    check(again.returncode == 0 and '1 of 1 steps' in again.stdout, again.stdout + again.stderr)
    check('reproduce: M_STEPS=1 ' in again.stdout, again.stdout)


def on_terminal(*arguments, **environment):
    """All that a run says on a terminal."""
    control, end = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ('NO_COLOR', 'CI')} | {'TERM': 'xterm'} | environment
    process = subprocess.Popen([str(e2e.TOOL), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=end, stderr=end,
                               env=env, cwd=ROOT)
    os.close(end)
    said = b''
    while True:
        try:
            more = os.read(control, 65536)
        except OSError:
            more = b''
        if not more:
            break
        said += more
    os.close(control)
    process.wait()
    return said.decode()


@case
def colour_is_for_terminals():
    green = '\x1b[1;32mEQUAL\x1b[0m: linen'
    check(green in on_terminal(SMALL), 'a terminal has no colour')
    for off in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
        check('\x1b' not in on_terminal(SMALL, '--progress', 'never', **off), off)
    check('\x1b' not in on_terminal(SMALL, '--progress', 'never', '--color', 'never'), 'never')
    check(green in on_terminal(SMALL, NO_COLOR=''), 'an empty NO_COLOR counts')
    check('\x1b' not in expect(EQUAL, SMALL).out, 'a pipe has colour')
    check(green in expect(EQUAL, SMALL, '--color', 'always').out, 'always')


@case
def progress_is_shown_and_erased():
    r = expect(EQUAL, SMALL, '--progress', 'always')
    check('a (linen): step 1 of 2' in r.err and 's left' in r.err and r.err.endswith('\x1b[K'), repr(r.err))
    check('step 1 of 2' not in r.out, r.out)
    check('\x1b' not in expect(EQUAL, SMALL).err, 'progress in a pipe')
    check('step 1' not in on_terminal(SMALL, CI='true').split('EQUAL')[0], 'progress under CI')
    d = folder()
    (d / 'list.yml').write_text(f'cases:\n  - name: green\n    case: {SMALL}\n')
    r = expect(EQUAL, '--suite', d / 'list.yml', '--progress', 'always')
    check('case 1 of 1, green: a (linen): step 1 of 2' in r.err, repr(r.err))


@case
def verbose_lists_what_differs():
    r = expect(DIFFERENT, *RED, '--verbose')
    check(r.out.count('\nfinding over its bound: ') == 24 and '\nfinding: ' in r.out, r.out)
    check('finding' not in expect(DIFFERENT, *RED).out, 'without --verbose')


@case
def defects_are_noted_where_they_can_show():
    b1 = 'upstream_faithful=B1 does what MaxText does'
    check(b1 in expect(EQUAL, REFERENCE / 'p08_llama2').out, 'four stages, two repeats')
    check(b1 not in expect(EQUAL, SMALL, 'pipeline_fsdp_ag_per_repeat=true').out, 'two stages')


e2e.main()
