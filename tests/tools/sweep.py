"""Sweeps: one command again and again, each time with another thing failing, and what must hold after every run.

An act is a command in a folder of its own, which is made anew for every run: `case`, a golden case made of the bundle
e01_simple, and an empty `out`. Sides are replayed (replayed.c), so that a run takes a few hundredths of a second.
SOURCE_DATE_EPOCH makes what is written the same in every run that nothing disturbs.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

from e2e import BUILD, EQUAL, DIFFERENT, REFERENCE, SLOWNESS, WORK, change_golden, check, folder

ALL = '--all' in sys.argv
WORKERS = 2
BUNDLE = REFERENCE / 'e01_simple'
TOOLS = {'compare': BUILD / 'tests/tools/ab_compare_replayed', 'golden': BUILD / 'tests/tools/ab_golden_replayed',
         'diff': BUILD / 'tools/ab_diff'}
OWN = '.ab-tmp-'
LIMIT = 60 * SLOWNESS

Act = collections.namedtuple('Act', 'name tool words template code')
ACTS = [Act('compare', 'compare', ['case', '--json', 'out/report.json', '--junit', 'out/report.xml',
                                   '--markdown', 'out/report.md', '--dump', 'out/dump'], 'good', EQUAL),
        Act('pending', 'compare', ['case', '--require-pending'], 'other', DIFFERENT),
        Act('record', 'golden', ['record', 'case', '--reason', 'to see it fail'], 'other', EQUAL),
        Act('check', 'golden', ['check', 'case'], 'good', EQUAL),
        Act('review', 'golden', ['review', 'case'], 'pending', EQUAL),
        Act('accept', 'golden', ['accept', 'case', '--reason', 'to see it fail'], 'pending', EQUAL),
        Act('import', 'golden', ['import', BUNDLE, 'out/made'], 'good', EQUAL),
        Act('diff', 'diff', [BUNDLE, 'case', '--json', 'out/report.json'], 'good', EQUAL)]

base = dict(os.environ, CI='', OMP_NUM_THREADS='1', SOURCE_DATE_EPOCH='1700000000', AB_REPLAY=str(folder('replay')))
Ran = collections.namedtuple('Ran', 'code out err files left')


def contents(root):
    """{path: bytes} of every file below it, without times; folders have None."""
    return {str(p.relative_to(root)): re.sub(rb' time="[0-9.]*"', b'', p.read_bytes()) if p.is_file() else None
            for p in sorted(root.rglob('*'))}


class Place:
    """A folder in which acts run, one after another."""

    def __init__(self):
        self.root = folder('place')
        self.scratch = folder('scratch')

    def prepare(self, template):
        shutil.rmtree(self.root, ignore_errors=True)
        (self.root / 'out').mkdir(parents=True)
        shutil.copytree(WORK / 'templates' / template, self.root / 'case')

    def start(self, act, environment=None, stdout=subprocess.PIPE, before=None):
        return self.start_words([TOOLS[act.tool], *act.words], environment, stdout, before)

    def start_words(self, words, environment=None, stdout=subprocess.PIPE, before=None):
        return subprocess.Popen([str(w) for w in words], cwd=self.root, stdin=subprocess.DEVNULL, stdout=stdout,
                                stderr=subprocess.PIPE, preexec_fn=before,
                                env=dict(base, TMPDIR=str(self.scratch)) | (environment or {}))

    def collect(self, process):
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise AssertionError(f'no end after {LIMIT} s') from None
        return Ran(process.returncode, (out or b'').decode(errors='replace'), err.decode(errors='replace'),
                   contents(self.root), [p.name for p in self.scratch.iterdir()])

    def freshen(self, act):
        """All that a killed run left stays, but what was there before is as before and what was made is gone."""
        for path in [*(self.root / 'out').iterdir(), *(self.root / 'case').iterdir()]:
            if path.name.startswith(OWN):
                continue
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        shutil.copytree(WORK / 'templates' / act.template, self.root / 'case', dirs_exist_ok=True)

    def clear(self):
        for path in self.scratch.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    def run(self, act, **options):
        self.clear()
        self.prepare(act.template)
        return self.collect(self.start(act, **options))


def make_templates():
    def tool(code, name, *words):
        p = subprocess.run([str(TOOLS[name]), *map(str, words)], cwd=top, env=dict(base, TMPDIR=str(top)),
                           capture_output=True, text=True, check=False)
        check(p.returncode == code, f'{name} {words}: exit {p.returncode}: {p.stdout}{p.stderr}')
        return p.stdout
    top = WORK / 'templates'
    top.mkdir()
    tool(EQUAL, 'golden', 'import', BUNDLE, 'good')
    shutil.copytree(top / 'good', top / 'other')

    def spoil(golden):
        leaf = golden['leaves'][0]
        leaf['digest'] = leaf['digest'][:-1] + ('0' if leaf['digest'][-1] != '0' else '1')
    change_golden(top / 'other/golden.json', spoil)
    digest = tool(EQUAL, 'golden', 'list', 'other').split('digest: ')[1][:32]
    change_golden(top / 'other/golden.json', lambda golden: golden['changelog'][-1].update(digest=digest))
    shutil.copytree(top / 'other', top / 'pending')
    tool(DIFFERENT, 'compare', 'pending')
    check((top / 'pending/golden.pending.json').exists(), 'there is no pending golden')


_undisturbed = {}


def undisturbed(act):
    """What the act gives when nothing fails: the same twice."""
    if not (WORK / 'templates').exists():
        make_templates()
    if act.name not in _undisturbed:
        place = Place()
        first, second = place.run(act), place.run(act)
        check(spoken(first) == spoken(second) and first.files == second.files, f'{act.name}: two runs differ')
        check(first.code == act.code and not first.left, f'{act.name}: exit {first.code}: {first.out}{first.err}')
        before = {'out': None, 'case': None, **{f'case/{name}': data for name, data in
                                               contents(WORK / 'templates' / act.template).items()}}
        _undisturbed[act.name] = first, before
    return _undisturbed[act.name]


def tells(path, data, code):
    """Whether a report of another outcome is whole and speaks of that outcome."""
    if path.endswith('json'):
        return json.loads(data)['exit_code'] == code
    if path.endswith('xml'):
        return xml.etree.ElementTree.fromstring(data) is not None
    return str(code).encode() in data and data.endswith(b'\n')


def whole(act, ran):
    """Every file is the old one or the new one, byte for byte, and nothing else is there but temporary names."""
    new, before = undisturbed(act)
    for path, data in ran.files.items():
        if any(part.startswith(OWN) for part in pathlib.PurePath(path).parts):
            continue
        known = [files[path] for files in (before, new.files) if path in files]
        told = path.startswith('out/report.') and ran.code != act.code and tells(path, data, ran.code)
        check(data in known and known or told, f'{path} is neither the old nor the new one')
    for path in before:
        check(path in ran.files or path not in new.files, f'{path} is gone')
    check('out/dump' not in ran.files or all(p in ran.files for p in new.files if p.startswith('out/dump')),
          'half a dump')
    check('out/made' not in ran.files or all(p in ran.files for p in new.files if p.startswith('out/made')),
          'half an import')


def spoken(ran):
    """What it printed, without the names of scratch folders."""
    return re.sub(re.escape(OWN) + r'[\w-]+', OWN, ran.out)


def temporaries(ran):
    return [p for p in ran.files if any(part.startswith(OWN) for part in pathlib.PurePath(p).parts)] + ran.left


def same(act, ran):
    """As if nothing had failed."""
    new, _ = undisturbed(act)
    rest = {p: d for p, d in ran.files.items() if OWN not in p}
    return (ran.code, spoken(ran), rest) == (new.code, spoken(new), new.files)


def sweep(jobs, judge):
    """Runs every job (a callable given a Place) on some workers; judge(job, result) raises. The number of runs."""
    places = queue.Queue()
    for _ in range(WORKERS):
        places.put(Place())

    def one(job):
        place = places.get()
        try:
            judge(job, job(place))
        except AssertionError as error:
            return f'{job}: {error}'
        finally:
            places.put(place)
        return None
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        wrong = [w for w in pool.map(one, jobs) if w]
    check(not wrong, f'{len(wrong)} of {len(jobs)} runs: ' + '\n'.join(wrong[:None if ALL else 30]))
    return len(jobs)
