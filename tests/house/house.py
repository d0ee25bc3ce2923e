#!/usr/bin/env python3
"""The house rules, as TAP: include direction, engines apart, no shared run of tokens, sizes, no stray words."""
import pathlib
import re
import sys

import guarantees
import locks

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else '.').resolve()
CLONE_TOKENS = 40

# What each folder may include from, itself aside (architecture: dependencies point downwards only).
BELOW = {
    'common/base': [],
    'common/tensor': ['common/base'],
    'common/kernels': ['common/base', 'common/tensor'],
    'common/random': ['common/base', 'common/tensor'],
    'common/config': ['common/base', 'common/tensor'],
    'common/mesh': ['common/base', 'common/tensor', 'common/kernels'],
}
BELOW['common/blocks'] = list(BELOW)
BELOW['common/train'] = list(BELOW)
SIDE_BELOW = list(BELOW)
BELOW['common/compare'] = ['common/base', 'common/tensor']
for side in ('common/oracle', 'legacy', 'modern'):
    BELOW[side] = SIDE_BELOW
BELOW['modern/bridge'] = SIDE_BELOW + ['legacy', 'modern']  # alone sees both engines

KEYWORDS = set('''auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool
true false NULL'''.split())
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_]\w*|\d[\w.]*|->|\+\+|--|<<=?|>>=?|[-+*/%&|^!=<>]=|&&|\|\||.')


def sources(folder):
    return sorted(p for p in (ROOT / folder).rglob('*.[ch]'))


def own_sources(folder):
    """Without those of a folder inside it that has rules of its own."""
    inner = [ROOT / f for f in BELOW if f.startswith(folder + '/')]
    return [p for p in sources(folder) if not any(f in p.parents for f in inner)]


def headers():
    return {p.name: str(p.parent.relative_to(ROOT)) for f in BELOW for p in own_sources(f) if p.suffix == '.h'}


def check_includes():
    owner = headers()
    wrong = []
    for folder, below in BELOW.items():
        for path in own_sources(folder):
            here = str(path.parent.relative_to(ROOT))
            for name in re.findall(r'#include "([^"]+)"', path.read_text()):
                home = owner.get(name)
                if '/' in name or (home and home != here and home not in below):
                    wrong.append(f'{path.relative_to(ROOT)} includes {name}')
    return wrong


def check_names_are_unique():
    seen, wrong = {}, []
    for folder in BELOW:
        for path in own_sources(folder):
            if path.suffix == '.h' and path.name in seen:
                wrong.append(f'{path.relative_to(ROOT)} and {seen[path.name]} have one name')
            seen[path.name] = path.relative_to(ROOT)
    return wrong


def tokens(path):
    text = re.sub(r'/\*.*?\*/|//[^\n]*', lambda m: '\n' * m.group(0).count('\n'), path.read_text(), flags=re.S)
    out = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith('#include'):
            continue
        out += [(t, number) for t in TOKEN.findall(line) if not t.isspace()]
    return out


def check_clones(a='legacy', b='modern'):
    seen = {}
    for path in sources(a):
        stream = tokens(path)
        for i in range(len(stream) - CLONE_TOKENS + 1):
            seen[tuple(t for t, _ in stream[i:i + CLONE_TOKENS])] = f'{path.relative_to(ROOT)}:{stream[i][1]}'
    wrong, last = [], -1
    for path in sources(b):
        stream = tokens(path)
        for i in range(len(stream) - CLONE_TOKENS + 1):
            home = seen.get(tuple(t for t, _ in stream[i:i + CLONE_TOKENS]))
            if home and stream[i][1] > last + 3:
                wrong.append(f'{path.relative_to(ROOT)}:{stream[i][1]} repeats {home}')
                last = stream[i][1]
    return wrong


def check_sizes():
    wrong = []
    for path in sources('common') + sources('legacy') + sources('modern') + sources('dispatch') + sources('tools'):
        lines = path.read_text().splitlines()
        if len(lines) > 400 and path.name != 'keys.c':
            wrong.append(f'{path.relative_to(ROOT)} has {len(lines)} lines, at most 400')
        wrong += [f'{path.relative_to(ROOT)}:{n} is {len(l)} wide, at most 120' for n, l in enumerate(lines, 1) if len(l) > 120]
        wrong += long_functions(path, lines)
    return wrong


def long_functions(path, lines):
    start, wrong = None, []
    for n, line in enumerate(lines, 1):
        if re.match(r'^[A-Za-z].*\)\s*\{$', line) or (line == '{' and start is None):
            start = n
        elif line.startswith('}') and start:
            if n - start > 60 and not line.startswith('};'):
                wrong.append(f'{path.relative_to(ROOT)}:{start} has a function of {n - start} lines, at most 60')
            start = None
    return wrong


def check_words():
    banned = re.compile(r'\b(TODO|FIXME|XXX|HACK)\b|/work/|/tmp/build')
    wrong = []
    for folder in ('common', 'legacy', 'modern', 'dispatch', 'tools'):
        for path in sources(folder):
            for n, line in enumerate(path.read_text().splitlines(), 1):
                if banned.search(line):
                    wrong.append(f'{path.relative_to(ROOT)}:{n}: {line.strip()[:80]}')
    return wrong


def check_clone_finder():
    """The finder itself: a file is a clone of itself, and a renamed copy is not."""
    stream = [t for t, _ in tokens(next(p for p in sources('legacy') if len(tokens(p)) > 2 * CLONE_TOKENS))]
    return [] if len(stream) > 2 * CLONE_TOKENS and check_clones('legacy', 'legacy') else ['legacy is not seen in legacy']


CHECKS = [
    ('includes point downwards', check_includes),
    ('header names are unique', check_names_are_unique),
    (f'legacy and modern share no run of {CLONE_TOKENS} tokens', check_clones),
    ('the clone finder finds a clone', check_clone_finder),
    ('files and functions keep their size', check_sizes),
    ('no stray words', check_words),
    ('legacy/ is what golden/legacy.lock says', lambda: locks.check_legacy(ROOT)),
    ('what is cited of upstream is in golden/upstream.lock', lambda: locks.check_upstream(ROOT)),
    ('every guarantee has the tests it names', lambda: guarantees.check(ROOT)),
]

print(f'1..{len(CHECKS)}')
for number, (name, check) in enumerate(CHECKS, 1):
    wrong = check()
    print(f"{'not ok' if wrong else 'ok'} {number} {name}")
    for line in wrong[:40]:
        print(f'# {line}')
