#!/usr/bin/env python3
"""The locks themselves, on copies of a small tree: what must be refused, and what an update writes. TAP."""
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import locks  # noqa: E402

SOURCE = '/* Sum; utils/math.py: add_all, and\n * pipeline.py: get_new_loop_state. */\nint add_all(void);\n'
UPSTREAM = 'legacy/a.h 53dea32b7 src/utils/math.py: add_all\nlegacy/a.h 53dea32b7 src/layers/pipeline.py: get_new_loop_state\n'


HELD = []  # removed at exit


def tree():
    HELD.append(tempfile.TemporaryDirectory(prefix='ab-locks-'))
    root = pathlib.Path(HELD[-1].name)
    for folder in ('legacy/inner', 'golden', 'common', 'modern', 'dispatch'):
        (root / folder).mkdir(parents=True)
    (root / 'legacy/a.h').write_text(SOURCE)
    (root / 'legacy/inner/b.c').write_text('int b;\n')
    (root / 'golden/upstream.lock').write_text('# head\n' + UPSTREAM)
    locks.write_legacy(root, 'first')
    return root


def refused(wrong, text):
    return any(text in line for line in wrong) or f'expected "{text}" in {wrong}'


def clean(wrong):
    return not wrong or f'expected nothing, got {wrong}'


def update(root, *reason):
    """The command itself: its exit code and output."""
    done = subprocess.run([sys.executable, locks.__file__, 'legacy', '--root', str(root), *reason], text=True,
                          capture_output=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_fresh_tree_is_clean():
    root = tree()
    return clean(locks.check_legacy(root) + locks.check_upstream(root))


def test_changed_file_is_refused():
    root = tree()
    (root / 'legacy/a.h').write_text(SOURCE + 'int more;\n')
    return refused(locks.check_legacy(root), 'legacy/a.h is not what')


def test_new_and_removed_files_are_refused():
    root = tree()
    (root / 'legacy/inner/c.c').write_text('int c;\n')
    (root / 'legacy/inner/b.c').unlink()
    wrong = locks.check_legacy(root)
    first = refused(wrong, 'legacy/inner/c.c is not what')
    return first if first is not True else refused(wrong, 'legacy/inner/b.c is gone')


def test_update_appends_a_line():
    root = tree()
    old = locks.digest(root / 'legacy/a.h')
    (root / 'legacy/a.h').write_text(SOURCE + 'int more;\n')
    (root / 'legacy/inner/b.c').unlink()
    code, out = update(root, '--reason', 'more is needed')
    lines = locks.read_legacy(root)[0]
    right = (code == 0 and 'locked legacy/a.h' in out and clean(locks.check_legacy(root)) is True
             and lines['legacy/a.h'] == [(old, 'first'), (locks.digest(root / 'legacy/a.h'), 'more is needed')]
             and lines['legacy/inner/b.c'][-1] == ('gone', 'more is needed'))
    return right or f'{code} {out} {lines}'


def test_update_needs_a_new_reason():
    root = tree()
    (root / 'legacy/a.h').write_text(SOURCE + 'int more;\n')
    for reason in ((), ('--reason', '  '), ('--reason', 'first')):
        code, out = update(root, *reason)
        if code == 0:
            return f'{reason} was accepted: {out}'
    return refused(locks.check_legacy(root), 'legacy/a.h is not what')


def test_digest_edited_under_its_old_reason_is_refused():
    root = tree()
    path = root / 'legacy/a.h'
    path.write_text(SOURCE + 'int more;\n')
    lock = root / 'golden/legacy.lock'
    lock.write_text(lock.read_text().replace('legacy/inner', f'  {locks.digest(path)} first\nlegacy/inner', 1))
    return refused(locks.check_legacy(root), 'a reason of its own')


def test_malformed_and_missing_locks_are_refused():
    root = tree()
    lock = root / 'golden/legacy.lock'
    lock.write_text(lock.read_text() + '  1234 short\n')
    first = refused(locks.check_legacy(root), 'is neither a file')
    lock.unlink()
    second = refused(locks.check_legacy(root), 'legacy.lock is missing')
    (root / 'golden/upstream.lock').write_text('legacy/a.h: no commit\n')
    third = refused(locks.check_upstream(root), 'is not "FILE COMMIT')
    (root / 'golden/upstream.lock').unlink()
    fourth = refused(locks.check_upstream(root), 'upstream.lock is missing')
    return next((r for r in (first, second, third, fourth) if r is not True), True)


def test_citations_and_lock_agree():
    root = tree()
    lock = root / 'golden/upstream.lock'
    lock.write_text(UPSTREAM + 'legacy/gone.c 53dea32b7 src/x.py: f\n')
    first = refused(locks.check_upstream(root), 'legacy/gone.c, which does not exist')
    lock.write_text(UPSTREAM.replace('add_all', 'add_all add_none'))
    second = refused(locks.check_upstream(root), 'does not cite add_none')
    lock.write_text(UPSTREAM.splitlines()[0] + '\n')
    third = refused(locks.check_upstream(root), 'cites pipeline.py: get_new_loop_state, which')
    return next((r for r in (first, second, third) if r is not True), True)


TESTS = [(name, test) for name, test in list(globals().items()) if name.startswith('test_')]
print(f'1..{len(TESTS)}')
for number, (name, test) in enumerate(TESTS, 1):
    found = test()
    print(f"{'ok' if found is True else 'not ok'} {number} {name[5:].replace('_', ' ')}")
    if found is not True:
        print(f'# {found}')
