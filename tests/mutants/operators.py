"""Mutants of a C file: one small wrong change each, by a table of operators over its tokens.

A mutant has the span of the text that it replaces; the number of lines stays the same, so that __LINE__ does. Its name
is file, function, operator and both texts of its line: it survives edits elsewhere in the file.
"""
import re

TOKEN = re.compile(r'''
    (?P<comment>/\*.*?\*/|//[^\n]*) |
    (?P<pre>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*) |
    (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*') |
    (?P<number>(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[uUlLfF]*) |
    (?P<name>[A-Za-z_]\w*) |
    (?P<op><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^!~<>=?:;,.(){}\[\]]) |
    (?P<space>\s+)''', re.X | re.S | re.M)

COMPARE = {'<': ('<=', '>='), '<=': ('<', '>'), '>': ('>=', '<='), '>=': ('>', '<'), '==': ('!=',), '!=': ('==',)}
OTHER = {'&&': ('||',), '||': ('&&',), '|=': ('=', '&='), '&=': ('=', '|='), '+=': ('-=', '='), '-=': ('+=', '=')}
NAMES = {'fmin': 'fmax', 'fmax': 'fmin', 'continue': 'break', 'break': 'continue', 'sqrt': '', 'fabs': '',
         'INFINITY': '0', 'true': 'false', 'false': 'true', 'AB_TIER_BITWISE': 'AB_TIER_BOUNDED',
         'AB_TIER_BOUNDED': 'AB_TIER_BITWISE', 'rel_l2': 'l2', 'max_abs_over_max': 'max_abs', 'count': 'count / 4',
         'AB_EXIT_DIFFERENT': 'AB_EXIT_EQUAL', 'AB_EXIT_INCOMPARABLE': 'AB_EXIT_EQUAL', 'AB_BROKEN': 'AB_HOLDS',
         'AB_HOLDS': 'AB_BROKEN', 'BROKEN': 'NOT_BROKEN', 'HOLDS': 'NOT_BROKEN', 'NOT_BROKEN': 'AT_WILL',
         'SIZE_MAX': '0'}
CHECKS = {'isfinite': 'true', 'isnan': 'false', 'isinf': 'false', 'signbit': 'false'}
TYPES = ('int', 'size_t', 'bool', 'double', 'const', 'struct', 'static', 'enum', 'char', 'float', 'unsigned', 'void',
         'ab_status', 'int64_t', 'uint64_t', 'uint32_t', 'uint8_t', 'int32_t', 'uint16_t', 'long', 'return', 'continue',
         'break', 'goto', 'case', 'default', 'typedef')
CONSTANTS = {'bool': ('true', 'false'), 'ab_status': ('AB_OK',), 'int': ('0',), 'size_t': ('0',), 'double': ('0',),
             'int64_t': ('0',), 'uint64_t': ('0',), 'ab_exit': ('AB_EXIT_EQUAL',), 'ab_known': ('AB_HOLDS',)}


class Token:
    __slots__ = ('kind', 'text', 'at', 'depth')

    def __init__(self, kind, text, at, depth):
        self.kind, self.text, self.at, self.depth = kind, text, at, depth

    @property
    def end(self):
        return self.at + len(self.text)


def tokens_of(text):
    """Tokens without comments and blanks; depth counts ( and [ only."""
    found, depth, at = [], 0, 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if not match:
            raise ValueError(f'no token at {text[at:at + 20]!r}')
        kind, at = match.lastgroup, match.end()
        if kind in ('comment', 'pre', 'space'):
            continue
        word = match.group()
        if word in (')', ']'):
            depth -= 1
        found.append(Token(kind, word, match.start(), depth))
        if word in ('(', '['):
            depth += 1
    return found


class Mutant:
    def __init__(self, file, function, op, source, start, end, text):
        self.file, self.op, self.start, self.end, self.text = file, op, start, end, text
        self.line = source.count('\n', 0, start) + 1
        # What is cut keeps its line ends, so that no later line moves.
        self.text += '\n' * (source.count('\n', start, end) - text.count('\n'))
        first = source.rfind('\n', 0, start) + 1
        last = source.find('\n', end)
        self.old = ' '.join(source[first:last].split())
        self.new = ' '.join((source[first:start] + self.text + source[end:last]).split())
        self.name = f'{file}: {function}: {op}: {self.old} => {self.new}'

    def apply(self, source):
        return source[:self.start] + self.text + source[self.end:]


def close_of(tokens, i):
    """Index of the bracket that closes the one at i."""
    depth = tokens[i].depth
    return next(k for k in range(i + 1, len(tokens)) if tokens[k].text in (')', ']') and tokens[k].depth == depth)


def functions_of(source, tokens):
    """[(first token, last token, name, return type)] of function bodies at the top level of the file."""
    found, level, start = [], 0, None
    for i, t in enumerate(tokens):
        if t.text == '{':
            if level == 0 and tokens[i - 1].text == ')':
                start = i
            level += 1
        elif t.text == '}':
            level -= 1
            if level == 0 and start is not None:
                opening = next(k for k in range(start - 1, -1, -1) if tokens[k].text == '(' and
                               tokens[k].depth == tokens[start - 1].depth)
                head, k = [], opening - 2
                while k >= 0 and tokens[k].text not in (';', '}', '{'):
                    head.insert(0, tokens[k].text)
                    k -= 1
                kind = [w for w in head if w not in ('static', 'const', 'inline', 'enum', 'struct')]
                found.append((start, i, tokens[opening - 1].text, kind[0] if kind and '*' not in head else '*'))
                start = None
    return found


def is_binary(tokens, i):
    before = tokens[i - 1]
    return before.kind in ('name', 'number') and before.text not in ('return', 'sizeof', 'case') or \
        before.text in (')', ']')


def statement_starts(tokens, first, last):
    """[(start, end)] of simple statements: tokens from after a boundary up to a ';', control words cut off."""
    found, start, i = [], first + 1, first + 1
    base = tokens[first].depth
    while i < last:
        t = tokens[i]
        if t.text in ('{', '}') and t.depth == base:
            start = i + 1
        elif t.text in ('if', 'for', 'while', 'switch') and i == start:
            i = close_of(tokens, i + 1)
            start = i + 1
        elif t.text in ('else', 'do') and i == start:
            start = i + 1
        elif t.text == ';' and t.depth == base:
            found.append((start, i))
            start = i + 1
        i += 1
    return found


def token_changes(tokens, i, within):
    """[(operator, start, end, text)] of the table operators at one token; `within` a function body."""
    t, out = tokens[i], []
    following = tokens[i + 1] if i + 1 < len(tokens) else t
    if t.text in COMPARE and is_binary(tokens, i):
        out += [('compare', t.at, t.end, new) for new in COMPARE[t.text]]
    if t.text in OTHER:
        out += [('operator', t.at, t.end, new) for new in OTHER[t.text]]
    if t.text == '!':
        out.append(('negation', t.at, t.end, ''))
    if t.text in ('+', '-') and is_binary(tokens, i):
        out.append(('arithmetic', t.at, t.end, '-' if t.text == '+' else '+'))
        if following.text == '1':
            out.append(('off by one', t.at, following.end, ''))
    if t.text in ('*', '/') and is_binary(tokens, i) and tokens[i - 1].kind != 'name' or t.text == '/':
        out.append(('unit', t.at, t.end, '/' if t.text == '*' else '*'))
    if t.text == '?':
        out += [('ternary', t.at, t.end, '|| 1 ?'), ('ternary', t.at, t.end, '&& 0 ?')]
    if t.kind == 'number':
        out.append(('constant', t.at, t.end, {'0': '1', '1': '2'}.get(t.text, f'2 * {t.text}')))
    if t.text in CHECKS and following.text == '(':
        out += [('check', t.at, tokens[close_of(tokens, i + 1)].end, CHECKS[t.text]), ('check', t.at, t.at, '!')]
    elif t.text in NAMES:
        out.append(('word', t.at, t.end, NAMES[t.text]))
    side = re.fullmatch(r'(.*_|r|)([ab])', t.text)
    if t.kind == 'name' and side and within:
        out.append(('side', t.at, t.end, side[1] + ('b' if side[2] == 'a' else 'a')))
    return out


def control_changes(tokens, i):
    """Conditions forced, loops that leave out their last turn."""
    t, out = tokens[i], []
    if t.text in ('if', 'while') and tokens[i + 1].text == '(':
        opening, closing = tokens[i + 1], tokens[close_of(tokens, i + 1)]
        out.append(('condition', opening.end, closing.at, None, ('false && (', ')')))
        if t.text == 'if':
            out.append(('condition', opening.end, closing.at, None, ('true || (', ')')))
    if t.text == 'for':
        end = close_of(tokens, i + 1)
        for k in range(i + 2, end):
            if tokens[k].text == '<' and tokens[k].depth == tokens[end].depth + 1:
                out.append(('skipped last', tokens[k].at, tokens[k].end, '+ 1 <'))
                break
    return out


def return_changes(tokens, i, last, kind):
    t = tokens[i]
    if t.text != 'return' or tokens[i + 1].text == ';':
        return []
    end = next(k for k in range(i, last) if tokens[k].text == ';' and tokens[k].depth == t.depth)
    start, stop = tokens[i + 1].at, tokens[end].at
    now = [x.text for x in tokens[i + 1:end]]
    return [('return', start, stop, new) for new in CONSTANTS.get(kind, ()) if now != [new]]


def statement_changes(tokens, start, end):
    first = tokens[start].text
    if start >= end or first in TYPES and first not in ('continue', 'break'):
        return []
    out = [('deleted', tokens[start].at, tokens[end].at, '')]
    if first == 'AB_TRY':
        out.append(('swallowed', tokens[start].at, tokens[start].end, '(void)'))
    return out


def flag_changes(tokens, start, end):
    """bool x = EXPRESSION; of one variable."""
    words = [t.text for t in tokens[start:end]]
    if words[:1] != ['bool'] or words[2:3] != ['='] or any(
            t.text == ',' and t.depth == tokens[start].depth for t in tokens[start:end]):
        return []
    return [('flag', tokens[start + 3].at, tokens[end].at, new) for new in ('true', 'false') if words[3:] != [new]]


def mutants_of(file, source):
    """All mutants of a file in the order of its text; two with one result appear once."""
    tokens = tokens_of(source)
    changes, functions = [], functions_of(source, tokens)
    inside = {}
    for first, last, name, kind in functions:
        for start, end in statement_starts(tokens, first, last):
            changes += [(name,) + c for c in statement_changes(tokens, start, end) + flag_changes(tokens, start, end)]
        for i in range(first + 1, last):
            inside[i] = name
            changes += [(name,) + c for c in control_changes(tokens, i) + return_changes(tokens, i, last, kind)]
    for i, t in enumerate(tokens):
        if 0 < i < len(tokens) - 1:
            changes += [(inside.get(i, 'table'),) + c for c in token_changes(tokens, i, i in inside)]
    seen, found = set(), []
    for function, op, start, end, text, *around in changes:
        if around:
            text = around[0][0] + source[start:end] + around[0][1]
        mutant = Mutant(file, function, op, source, start, end, text)
        result = mutant.apply(source)
        if result in seen or result == source:
            continue
        seen.add(result)
        found.append(mutant)
    found.sort(key=lambda m: (m.start, m.end, m.op, m.text))
    names = {}
    for mutant in found:
        names[mutant.name] = names.get(mutant.name, 0) + 1
        if names[mutant.name] > 1:
            mutant.name += f' #{names[mutant.name]}'
    return found
