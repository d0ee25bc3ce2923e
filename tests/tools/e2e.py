"""What the end-to-end tests share: running the built tools, TAP, safetensors, copies of cases.

Every run gets a TMPDIR of its own, which must be empty when it ends, whatever happened in it. A script registers cases
with @case and ends with main().
"""
import atexit
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

ROOT = pathlib.Path(os.environ.get('AB_SOURCE_ROOT', '.')).resolve()
BUILD = pathlib.Path(os.environ.get('AB_BUILD_ROOT', 'build')).resolve()
REFERENCE = ROOT / 'tests/fixtures/reference'
FAULTS = ROOT / 'tests/fixtures/faults'
SMALL = str(FAULTS / 'circ.yml')  # a config that runs in a fraction of a second
EQUAL, DIFFERENT, USAGE, SIDE, GOLDEN, INCOMPARABLE = range(6)
TOOL = BUILD / 'tools/ab_compare'
SLOWNESS = int(os.environ.get('AB_SLOWNESS', '1'))  # how many times slower than usual a tool may be
LIMIT = 300 * SLOWNESS  # seconds: a tool that hangs fails, it does not hang the tests

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # an ignored one is handed down: under nohup no tool would hear it

WORK = pathlib.Path(tempfile.mkdtemp(prefix='abpipe-e2e-'))
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
cases = []


def case(function):
    cases.append((function.__name__.replace('_', ' '), function))
    return function


def check(condition, message):
    if not condition:
        raise AssertionError(message)


class Run:
    """A tool that was started; finish() collects it."""

    def __init__(self, *arguments, tool='ab_compare', environment=None, stdout=subprocess.PIPE, cwd=ROOT):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix='tmp-', dir=WORK))
        self.arguments = [str(a) for a in arguments]
        env = os.environ | {'TMPDIR': str(self.scratch), 'OMP_NUM_THREADS': '2', 'CI': ''} | (environment or {})
        self.started = time.monotonic()
        self.process = subprocess.Popen([str(BUILD / 'tools' / tool), *self.arguments], stdin=subprocess.DEVNULL,
                                        stdout=stdout, stderr=subprocess.PIPE, env=env, cwd=cwd, text=True)

    def finish(self, stopped=0):
        """stopped: the signal of which it should have died."""
        try:
            self.out, self.err = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError(f'{self}: no end after {LIMIT} s') from None
        self.code = self.process.returncode
        check(self.code == -stopped if stopped else self.code >= 0, f'{self}: exit {self.code}: {self.err[:300]}')
        left = [p.name for p in self.scratch.iterdir()]
        check(not left, f'{self}: left {left} behind in TMPDIR')
        check('Sanitizer' not in self.err, f'{self}: {self.err}')
        return self

    def sides(self):
        """Process ids of the sides: they carry our TMPDIR in their arguments."""
        found = {}
        for entry in pathlib.Path('/proc').iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / 'cmdline').read_bytes().split(b'\0')
                alive = b'\nState:\tZ' not in (entry / 'status').read_bytes()
            except OSError:
                continue
            if b'--side' in words and alive and any(str(self.scratch).encode() in w for w in words):
                found[int(entry.name)] = words[words.index(b'--side') + 1].decode()
        return found

    def __str__(self):
        return 'ab_compare ' + ' '.join(self.arguments)


def run(*arguments, **options):
    return Run(*arguments, **options).finish()


def expect(code, *arguments, says=(), **options):
    """Runs and checks exit code and texts; what goes wrong is shown with what the tool said."""
    r = run(*arguments, **options)
    said = (r.out or '') + r.err
    check(r.code == code, f'{r}: exit {r.code}, expected {code}: {said[:600]}')
    for text in says:
        check(text in said, f'{r}: says nothing of "{text}": {said[:600]}')
    return r


def refuse(*arguments, says=(), **options):
    """Exit 2 with one sentence on stderr and nothing on stdout."""
    r = expect(USAGE, *arguments, says=says, **options)
    check(not r.out, f'{r}: refused, but wrote to stdout: {r.out[:200]}')
    check(r.err.count('\n') == 1 and r.err.startswith('ab_'), f'{r}: not one sentence: {r.err[:400]}')
    return r


def folder(name='case'):
    return pathlib.Path(tempfile.mkdtemp(prefix=name + '-', dir=WORK))


def copy_case(name):
    """A copy of a reference case that may be damaged."""
    target = folder() / name
    shutil.copytree(REFERENCE / name, target)
    return target


def program(text, name='ab_compare'):
    """An executable shell script."""
    path = folder('program') / name
    path.write_text('#!/bin/sh\n' + text)
    path.chmod(0o755)
    return path


def build(side, version=f'"{TOOL}" --version'):
    """Something that passes for a build: its version, and what it does as a side."""
    return program(f'if [ "$1" = --version ]; then {version}; exit; fi\n{side}\n')


SIZES = {'F32': 4, 'I32': 4, 'F64': 8, 'I64': 8}


def read_tensors(path):
    """{name: [dtype, shape, bytes]}, in the file's order."""
    data = path.read_bytes()
    length = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop('__metadata__', None)
    body = data[8 + length:]
    return {name: [t['dtype'], t['shape'], bytearray(body[slice(*t['data_offsets'])])] for name, t in header.items()}


def write_tensors(path, tensors):
    header, body = {}, b''
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {'dtype': dtype, 'shape': shape, 'data_offsets': [len(body), len(body) + len(data)]}
        body += bytes(data)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    path.write_bytes(struct.pack('<Q', len(text)) + text + body)


def change_tensors(path, change):
    tensors = read_tensors(path)
    change(tensors)
    write_tensors(path, tensors)


def change_json(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def change_golden(path, change):
    """Changes a golden or a pending one and seals it again, so that not the edit is noticed but what it does."""
    change_json(path, change)
    p = subprocess.run([str(BUILD / 'tests/tools/golden_seal'), str(path)], capture_output=True, text=True, check=False)
    check(p.returncode == 0, f'{path} cannot be sealed: {p.stderr}')


def main():
    failed = 0
    for number, (name, function) in enumerate(cases, 1):
        try:
            skip = function()
            print(f'ok {number} - {name}' + (f' # SKIP {skip}' if skip else ''), flush=True)
        except Exception as error:  # whatever it was, the case failed and the others run
            failed += 1
            print(f'not ok {number} - {name}')
            reason = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
            print('\n'.join('# ' + line for line in reason.splitlines()), flush=True)
            if os.environ.get('AB_FIRST_RED'):  # a mutant has been killed: nobody asks for more
                break
    print(f'1..{len(cases)}')
    sys.exit(1 if failed else 0)
