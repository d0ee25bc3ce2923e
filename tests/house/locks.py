#!/usr/bin/env python3
"""The two locks of golden/.

legacy.lock: legacy/ is the frozen reference. Per file the SHA-256 of what it was, one line per change, oldest first, each
with its own reason; the last line is what the file is now. `locks.py legacy --reason TEXT` appends what has changed.

upstream.lock: per C file the upstream file, commit and functions that it restates. A function is cited where its name
stands as a word in that C file; every citation `file.py: name` in the sources must be listed.
"""
import argparse
import hashlib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEGACY_HEAD = '''# Digests of legacy/, the frozen reference. A change needs a line of its own with the reason:
#   ./dev lock legacy --reason 'why the reference had to change'
# Per file the oldest line first; the last one is the file as it is. "gone" is the digest of a file that was removed.
'''
ENTRY = re.compile(r'^  ([0-9a-f]{64}|gone) (\S.*)$')
SOURCES = ('common', 'legacy', 'modern', 'dispatch')
# After the colon a name; a plain lower-case word is one only where a sentence does not go on with it.
CITATION = re.compile(r'([\w/]+\.py): ((?:\w*[A-Z_]\w*(?:\.\w+)*)|\w+(?=[,.;)]))')


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_legacy(root):
    """{file: [(digest, reason), ...]}, and what is wrong with the lock itself."""
    entries, wrong, name = {}, [], None
    path = root / 'golden/legacy.lock'
    if not path.is_file():
        return {}, ['golden/legacy.lock is missing']
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = ENTRY.match(line)
        if not line.strip() or line.startswith('#'):
            continue
        if match and name:
            entries[name].append(match.groups())
        elif re.match(r'^legacy/\S+$', line) and line not in entries:
            name = line
            entries[name] = []
        else:
            wrong.append(f'golden/legacy.lock:{number} is neither a file nor "  digest reason": {line[:60]}')
    return entries, wrong


def files_now(root):
    return {str(p.relative_to(root)): digest(p) for p in sorted((root / 'legacy').rglob('*')) if p.is_file()}


def last(entries, name):
    return entries[name][-1][0] if entries.get(name) else None


def changed(entries, now):
    """What the lock does not know: {file: digest now or 'gone'}."""
    out = {name: d for name, d in now.items() if last(entries, name) != d}
    out.update({name: 'gone' for name in entries if name not in now and last(entries, name) != 'gone'})
    return out


def check_legacy(root=ROOT):
    entries, wrong = read_legacy(root)
    for name, now in sorted(changed(entries, files_now(root)).items()):
        wrong.append(f'{name} is {"gone" if now == "gone" else "not what golden/legacy.lock says"}: '
                     "the reference is frozen; ./dev lock legacy --reason '...' if it must change")
    for name, lines in entries.items():
        reasons = [reason for _, reason in lines]
        if not lines or len(set(reasons)) < len(reasons):
            wrong.append(f'golden/legacy.lock: {name} has a change without a reason of its own')
    return wrong


def write_legacy(root, reason):
    entries, wrong = read_legacy(root)
    if wrong and entries:
        raise SystemExit('\n'.join(wrong))
    reason = ' '.join(reason.split())
    if not reason:
        raise SystemExit('--reason is empty')
    new = changed(entries, files_now(root))
    for name, now in new.items():
        if any(old == reason for _, old in entries.get(name, [])):
            raise SystemExit(f'{name} was changed for this very reason before; say what is new')
        entries.setdefault(name, []).append((now, reason))
    lines = [LEGACY_HEAD]
    for name in sorted(entries):
        lines += [f'{name}\n'] + [f'  {d} {r}\n' for d, r in entries[name]]
    (root / 'golden/legacy.lock').write_text(''.join(lines))
    return sorted(new)


def comments_as_one_line(text):
    return ' '.join(re.sub(r'^\s*(/\*|\*)\s?', '', line) for line in text.splitlines())


def read_upstream(root):
    """[(C file, commit, upstream file, [functions])], and what is wrong with the lock itself."""
    rows, wrong = [], []
    path = root / 'golden/upstream.lock'
    if not path.is_file():
        return [], ['golden/upstream.lock is missing']
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith('#'):
            continue
        match = re.match(r'^(\S+\.[ch]) (\S+) (\S+\.py):((?: \S+)+)$', line)
        if match:
            rows.append((match[1], match[2], match[3], match[4].split()))
        else:
            wrong.append(f'golden/upstream.lock:{number} is not "FILE COMMIT UPSTREAM.py: FUNCTION ...": {line[:60]}')
    return rows, wrong


def short(function):
    return function.split('.')[-1]


def check_listed(root, rows):
    wrong = []
    for name, commit, upstream, functions in rows:
        path = root / name
        if not path.is_file():
            wrong.append(f'golden/upstream.lock lists {name}, which does not exist')
            continue
        text = path.read_text()
        wrong += [f'{name} does not cite {function} of {upstream}, as golden/upstream.lock says' for function in functions
                  if not re.search(rf'\b{re.escape(short(function))}\b', text)]
    return wrong


def check_cited(root, rows):
    """Every `file.py: name` in a source is in the lock."""
    listed = {(name, pathlib.PurePath(upstream).name, short(f)) for name, _, upstream, fs in rows for f in fs}
    wrong = []
    for folder in SOURCES:
        for path in sorted((root / folder).rglob('*.[ch]')):
            name = str(path.relative_to(root))
            for upstream, function in CITATION.findall(comments_as_one_line(path.read_text())):
                if (name, pathlib.PurePath(upstream).name, short(function)) not in listed:
                    wrong.append(f'{name} cites {upstream}: {function}, which golden/upstream.lock does not list')
    return wrong


def check_upstream(root=ROOT):
    rows, wrong = read_upstream(root)
    return wrong + check_listed(root, rows) + check_cited(root, rows)


def main():
    parser = argparse.ArgumentParser(prog='./dev lock', description='Accept a change of the frozen reference.')
    parser.add_argument('lock', choices=['legacy'])
    parser.add_argument('--reason', required=True)
    parser.add_argument('--root', type=pathlib.Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in write_legacy(args.root, args.reason):
        print(f'locked {name}')


if __name__ == '__main__':
    sys.exit(main())
