#!/usr/bin/env python3
"""Another commit as a side, --a-rev and --b-rev, in repositories whose only source is a script around this build."""
import os
import shutil
import signal
import subprocess

from bad_engine import ends_with
from e2e import BUILD, DIFFERENT, EQUAL, SIDE, SMALL, Run, case, check, expect, folder, main, refuse

TOOL = BUILD / 'tools/ab_compare'
GIT = dict(os.environ, GIT_CONFIG_GLOBAL='/dev/null', GIT_CONFIG_NOSYSTEM='1', GIT_AUTHOR_NAME='a', GIT_AUTHOR_EMAIL='a@b',
           GIT_COMMITTER_NAME='a', GIT_COMMITTER_EMAIL='a@b')
AS_IT_IS = f'exec "{TOOL}" "$@"'
OLDER = f'AB_ALTERED="older rng/" exec "{BUILD}/tests/tools/ab_compare_altered" "$@"'
OTHER_NUMBERS = f'[ "$1" = --version ] && exec "{TOOL}" "$@"; exec "{TOOL}" "$@" rope_max_timescale=500000'


class Repository:
    """Commits by name; each builds tools/ab_compare by copying a script."""

    def __init__(self, *commits, first=''):
        self.path = folder('repository')
        self.git('init', '-q')
        (self.path / 'tools').mkdir()
        (self.path / 'meson.build').write_text(f"project('stub', 'c')\n{first}\nsubdir('tools')\n")
        (self.path / 'tools/meson.build').write_text(
            "custom_target('ab_compare', input: 'stub.sh', output: 'ab_compare', command: ['sh', '-c',\n"
            "  'grep -v REFUSED \"$0\" >\"$1\" && ! grep -q REFUSED \"$0\" && chmod +x \"$1\"', '@INPUT@', '@OUTPUT@'])\n")
        self.commit = {}
        for name, stub in commits:
            (self.path / 'tools/stub.sh').write_text(f'#!/bin/sh\n# {name}\n{stub}\n')
            self.git('add', '-A')
            self.git('commit', '-q', '-m', name)
            self.commit[name] = self.git('rev-parse', 'HEAD').strip()

    def git(self, *words):
        return subprocess.run(['git', '-C', str(self.path), *words], env=GIT, check=True, capture_output=True,
                              text=True).stdout

    def cache(self, name):
        return BUILD / 'revisions' / self.commit[name]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in self.commit:
            shutil.rmtree(self.cache(name), ignore_errors=True)


@case
def before_and_after_a_change():
    with Repository(('good', AS_IT_IS), ('bad', OTHER_NUMBERS)) as r:
        where = '--source', r.path
        expect(EQUAL, SMALL, '--b', 'linen', '--b-rev', 'HEAD~1', *where, says=['side b is run by'])
        expect(DIFFERENT, SMALL, '--b', 'linen', '--b-rev', 'HEAD', *where, says=['cause: B wrong'])
        expect(DIFFERENT, SMALL, '--a', 'nnx', '--b', 'nnx', '--a-rev', r.commit['bad'][:9], '--b-rev', 'HEAD~1', *where,
               says=['cause: A wrong'])
        built = (r.cache('good') / 'build/tools/ab_compare').stat().st_mtime_ns
        expect(EQUAL, SMALL, '--a-rev', 'HEAD~1', *where)
        check(built == (r.cache('good') / 'build/tools/ab_compare').stat().st_mtime_ns, 'built again')


@case
def a_commit_that_does_not_build_is_a_side_that_failed():
    with Repository(('broken', 'REFUSED by this test')) as r:
        for _ in range(2):
            got = expect(SIDE, SMALL, '--b-rev', 'HEAD', '--source', r.path, says=['failed: side b: the build of commit'])
            check('exited with code 1' in got.out and str(r.cache('broken') / 'log') in got.out, got.out)
        check('stub.sh' in (r.cache('broken') / 'log').read_text(), 'the log does not hold the build')


@case
def an_attempt_that_was_cut_short_is_taken_up():
    with Repository(('good', AS_IT_IS)) as r:
        expect(EQUAL, SMALL, '--b-rev', 'HEAD', '--source', r.path)
        (r.cache('good') / 'built').unlink()
        (r.cache('good') / 'build/tools/ab_compare').unlink()
        expect(EQUAL, SMALL, '--b-rev', 'HEAD', '--source', r.path)


@case
def two_at_once_build_it_once():
    with Repository(('good', AS_IT_IS)) as r:
        both = [Run(SMALL, '--b-rev', 'HEAD', '--source', r.path) for _ in range(2)]
        for each in both:
            each.finish()
            check(each.code == EQUAL, f'exit {each.code}: {each.out}{each.err}')


@case
def what_is_no_revision():
    with Repository(('good', AS_IT_IS)) as r:
        refuse(SMALL, '--a-rev', 'nosuch', '--source', r.path, says=["--a-rev 'nosuch' is no revision"])
        refuse(SMALL, '--b-rev', '--help', '--source', r.path, says=['is no revision'])
        refuse(SMALL, '--b-rev', 'HEAD', '--source', folder(), says=['is not a git repository'])
        refuse(SMALL, '--b-rev', 'HEAD', '--b-bin', TOOL, '--source', r.path, says=['one program for side b'])
        refuse(SMALL, '--b-rev', 'HEAD', environment={'PATH': '/nonexistent'}, says=['needs git'])


def bisect(*arguments, cwd=None):
    return subprocess.run([str(BUILD / 'tools/ab_bisect'), *map(str, arguments)], env=GIT, capture_output=True, text=True,
                          cwd=cwd).returncode


@case
def bisecting_finds_the_commit_that_changed_a_number():
    with Repository(('good', AS_IT_IS), ('broken', 'REFUSED by this test'), ('also-good', AS_IT_IS), ('bad', OTHER_NUMBERS),
                    ('later', OTHER_NUMBERS)) as r:
        r.git('bisect', 'start', 'HEAD', r.commit['good'])
        said = r.git('bisect', 'run', str(BUILD / 'tools/ab_bisect'), SMALL, '--b', 'linen')
        check(f"{r.commit['bad']} is the first bad commit" in said, said[-800:])


@case
def bisecting_goes_back_to_builds_that_report_less():
    with Repository(('oldest', OLDER), ('older', OLDER), ('good', AS_IT_IS), ('bad', OTHER_NUMBERS),
                    ('later', OTHER_NUMBERS)) as r:
        expect(EQUAL, SMALL, '--a', 'nnx', '--b', 'nnx', '--b-rev', r.commit['oldest'], '--source', r.path,
               says=['not reported by side b (nnx@', 'rng positions'])
        r.git('bisect', 'start', 'HEAD', r.commit['oldest'])
        said = r.git('bisect', 'run', str(BUILD / 'tools/ab_bisect'), SMALL, '--a', 'nnx', '--b', 'nnx')
        check(f"{r.commit['bad']} is the first bad commit" in said, said[-800:])


@case
def exit_codes_for_bisecting():
    for code, expected in (0, 0), (1, 1), (2, 130), (3, 125), (4, 132), (5, 133), (6, 134):
        tool = folder() / 'ab_compare'
        tool.write_text(f'#!/bin/sh\nexit {code}\n')
        tool.chmod(0o755)
        found = subprocess.run([str(BUILD / 'tools/ab_bisect'), '--b-cmd', 'true'],
                               env=dict(GIT, AB_COMPARE=str(tool))).returncode
        check(found == expected, f'exit code {code} becomes {found}, expected {expected}')
    check(bisect(SMALL, '--b-cmd', 'exit 9') == 125, 'a command that fails is not skipped')
    check(bisect(SMALL, '--b-cmd', 'true', '--no-such-option') == 130, 'a wrong option does not stop the bisection')
    check(bisect(SMALL, cwd=folder()) == 130, 'outside a repository the bisection does not stop')


@case
def a_build_ends_with_the_tool():
    with Repository(('as it is', AS_IT_IS), first="run_command('sleep', '1000', check: false)") as r:
        for number in signal.SIGKILL, signal.SIGTERM:
            ends_with(number, '1000', 1, '--b-rev', 'HEAD', '--source', r.path)


main()
