"""A copy of the tree with a build of its own, in which one file at a time is changed."""
import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import threading

import coverage

ROOT = pathlib.Path(__file__).resolve().parents[2]
MEMORY = 12 << 30  # bytes of address space of one test: a mutant may allocate without end
SECONDS = 30  # of processor time of one process: on a busy machine the time limit of a test is much longer


def tracked():
    done = subprocess.run(['git', '-C', str(ROOT), 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
                          capture_output=True, check=True)
    return [p for p in done.stdout.decode().split('\0') if p and (ROOT / p).is_file()]


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end(child):
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)


def green(command, env, limit, cwd):
    """(whether a test passes in time, the lines of its stderr); all that it started is ended, at its first 'not ok'."""
    with tempfile.TemporaryFile() as err, subprocess.Popen(
            command, env=dict(os.environ, AB_FIRST_RED='1', **env), cwd=cwd, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=err, start_new_session=True, preexec_fn=limited) as child:
        timer = threading.Timer(limit, end, (child,))
        timer.start()
        red = any(b'not ok' in line for line in child.stdout)
        if red:
            end(child)
        red |= child.wait() != 0
        timer.cancel()
        err.seek(0)
        return not red, err.read().decode(errors='replace').splitlines()


class Scratch:
    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.lock = open(folder / 'lock', 'w', encoding='ascii')
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f'another run is at work in {folder}') from None
        self.tree, self.build = folder / 'tree', folder / 'build'

    def put(self, path):
        """A file as it is in the repository; untouched when it is so already."""
        source, to = ROOT / path, self.tree / path
        if to.is_file() and to.read_bytes() == source.read_bytes():
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, to)
        shutil.copymode(source, to)

    def begin(self):
        wanted = set(tracked())
        for old in (p for p in self.tree.rglob('*') if p.is_file() and '__pycache__' not in p.parts):
            if str(old.relative_to(self.tree)) not in wanted:
                old.unlink()
        for path in sorted(wanted):
            self.put(path)
        if not (self.build / 'build.ninja').exists():
            subprocess.run(['meson', 'setup', str(self.build), str(self.tree), '-Ddebug=false', '-Dwerror=false',
                            '-Dwarning_level=0', '-Doptimization=1'],
                           check=True, capture_output=True)
        self.ninja('build.ninja')
        self.targets = {t['id']: t['filename'] for t in self.introspect('targets')}
        self.tests = {t['name']: t for t in self.introspect('tests')}
        commands = json.loads((self.build / 'compile_commands.json').read_text())
        self.objects = {}
        for c in commands:
            path = os.path.relpath(os.path.realpath(os.path.join(c['directory'], c['file'])),
                                   os.path.realpath(self.tree))
            self.objects.setdefault(path, []).append(c['output'])
        self.objects.update({part: self.objects[whole] for part, whole in coverage.INCLUDED.items()})

    def introspect(self, what):
        done = subprocess.run(['meson', 'introspect', f'--{what}', str(self.build)], capture_output=True, check=True)
        return json.loads(done.stdout)

    def ninja(self, *targets):
        done = subprocess.run(['ninja', '-C', str(self.build), '-j1', *targets], capture_output=True, check=False)
        return done.returncode == 0, done.stdout.decode(errors='replace')

    def test_targets(self, name):
        files = [f for d in self.tests[name]['depends'] for f in self.targets[d]]
        return [os.path.relpath(f, os.path.realpath(self.build)) for f in files]

    def passes(self, name, limit):
        """Builds what one test needs and runs it."""
        if not self.ninja(*self.test_targets(name))[0]:
            return False
        test = self.tests[name]
        return green(test['cmd'], test['env'], limit, test['workdir'] or self.build)[0]

    def objects_of(self, file):
        return [(self.build / o).read_bytes() for o in self.objects[file]]

    def put_back(self, file, contents):
        for path, content in zip(self.objects[file], contents):
            (self.build / path).write_bytes(content)
