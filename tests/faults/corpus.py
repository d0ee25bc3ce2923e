"""The fault corpus: one folder per fault below blind/ (chosen without sight of the comparer) and seen/.

<id>_<name>/patch is a unified diff against this repository; <id>_<name>/fault.yml says where it comes from, what makes
it visible and what the report must say. README.md describes the keys.
"""
import pathlib
import re
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
HALVES = ('blind', 'seen')

PLACES = ('schedule', 'weights', 'accum', 'rng', 'loss', 'optim', 'collective', 'ckpt', 'kernel', 'structural')
SIDES = ('linen', 'nnx', 'linen+nnx-pipeline')
VERDICTS = {'difference': 1, 'side-failed': 3, 'structure': 5}  # exit code of ab_compare
EXPLANATIONS = (
    'none', 'zero', 'constant-factor', 'missing-microbatch', 'doubled-microbatch', 'only-microbatch', 'other-layer',
    'other-microbatch', 'other-repeat', 'transposed', 'permuted', 'positions-of-microbatch', 'segments-of-microbatch',
    'no-segments', 'shifted-labels', 'labels-of-microbatch', 'wrong-denominator', 'per-stage-clip', 'not-clipped',
    'clipped-per-microbatch', 'lr-of-step', 'bias-correction', 'weight-decay', 'stale', '16-bit-accumulator',
    'not-finite', 'swapped-stages', 'missing-term', 'count')
IDENTITY = ('step', 'microbatch', 'layer')      # numbers of a finding
WHERE = ('iteration', 'stage', 'repeat')        # numbers of its at_b
WORDS = ('tensor', 'phase')
KEYS = ('title', 'source', 'seed', 'place', 'config', 'trigger', 'side', 'expect')
EXPECT_KEYS = ('verdict', 'first', 'explanation')


class Malformed(Exception):
    """One sentence: file, value found, value expected."""


def read_yaml(path):
    """The little YAML that a fault needs: scalars, lists of scalars and one level of nesting."""
    out, inner = {}, None
    for number, line in enumerate(path.read_text().splitlines(), 1):
        item = re.fullmatch(r'  - (\S.*)', line)
        member = re.fullmatch(r'(  )?([a-z_]+):(?: (\S.*))?', line)
        if item and isinstance(inner, list):
            inner.append(item.group(1))
        elif member and member.group(1) and isinstance(inner, dict):
            inner[member.group(2)] = member.group(3)
        elif member and not member.group(1):
            key, value = member.group(2), member.group(3)
            if key in out:
                raise Malformed(f'{path}:{number}: key {key!r} is given twice')
            inner = {'trigger': [], 'expect': {}}.get(key)
            out[key] = inner if inner is not None else value
        else:
            raise Malformed(f'{path}:{number}: cannot read {line!r}')
    return out


def parse_first(text, path):
    """'step=0 layer=2 ...' as a dict; {} for none."""
    first = {}
    for part in [] if text == 'none' else (text or '').split():
        key, _, value = part.partition('=')
        if key in WORDS:
            first[key] = value
        elif key in IDENTITY + WHERE and re.fullmatch(r'-?\d+', value):
            first[key] = int(value)
        else:
            raise Malformed(f"{path}: 'first' has {part!r}, expected "
                            f'{"=, ".join(IDENTITY + WHERE + WORDS)}= or the word none')
    if text != 'none' and ('step' not in first or 'tensor' not in first):
        raise Malformed(f"{path}: 'first' is {text!r}, expected a step and a tensor at least, or none")
    return first


def one_of(path, key, value, known):
    if value not in known:
        raise Malformed(f'{path}: {key!r} is {value!r}, expected one of {", ".join(known)}')


class Fault:
    def __init__(self, folder):
        self.folder, self.name, self.half = folder, folder.name, folder.parent.name
        self.patch, self.path = folder / 'patch', folder / 'fault.yml'
        self.data = read_yaml(self.path)
        self.check_keys()
        self.expect = self.data['expect']
        self.first = parse_first(self.expect['first'], self.path)
        self.check_values()

    def check_keys(self):
        for found, known in ((self.data, KEYS), (self.data.get('expect') or {}, EXPECT_KEYS)):
            if set(found) != set(known) or None in found.values():
                raise Malformed(f'{self.path}: keys with values are {", ".join(sorted(found))}, '
                                f'expected {", ".join(known)}')

    def check_values(self):
        one_of(self.path, 'place', self.place, PLACES)
        one_of(self.path, 'side', self.side, SIDES)
        one_of(self.path, 'verdict', self.expect['verdict'], VERDICTS)
        one_of(self.path, 'explanation', self.expect['explanation'], EXPLANATIONS)
        if not re.fullmatch(r'S\d\d', self.seed):
            raise Malformed(f"{self.path}: 'seed' is {self.seed!r}, expected S and two digits")
        if not re.fullmatch(r'[\w.-]+/[\w.-]+[#@][\w.]+|mutant', self.data['source']):
            raise Malformed(f"{self.path}: 'source' is {self.data['source']!r}, "
                            'expected owner/repo#number, @commit or the word mutant')
        if not (ROOT / self.data['config']).exists():
            raise Malformed(f"{self.path}: 'config' is {self.data['config']!r}, which is not in the repository")
        for pair in self.data['trigger']:
            if not re.fullmatch(r'\w+=\S+', pair):
                raise Malformed(f"{self.path}: 'trigger' has {pair!r}, expected key=value")

    place = property(lambda self: self.data['place'])
    seed = property(lambda self: self.data['seed'])
    side = property(lambda self: self.data['side'])
    case = property(lambda self: [self.data['config'], *self.data['trigger']])

    def files(self):
        """What the patch changes, as paths in the repository."""
        return re.findall(r'^\+\+\+ b/(\S+)', self.patch.read_text(), re.M)

    def hunks(self):
        """(path, the lines that a hunk finds there) of all hunks."""
        path, block = None, None
        for line in self.patch.read_text().splitlines(keepends=True):
            if line.startswith('+++ b/'):
                path, block = line[6:].strip(), None
            elif line.startswith('@@'):
                if block:
                    yield path, block
                block = ''
            elif block is not None and line.startswith((' ', '-')) and not line.startswith('--- '):
                block += line[1:]
            elif line.startswith('--- ') and block:
                yield path, block
                block = None
        if block:
            yield path, block

    def apply(self, tree, dry=False):
        """Applies the patch to a tree, or tries to; the sentence of a failure, or ''."""
        command = ['patch', '-p1', '--fuzz=0', '--force', '--no-backup-if-mismatch', '-d', str(tree), '-i',
                   str(self.patch)]
        done = subprocess.run(command + ['--dry-run'] * dry, capture_output=True, text=True, check=False)
        return '' if done.returncode == 0 else f'{self.name}: the patch does not apply: {done.stdout.strip()}'


def folders():
    return [f for half in HALVES for f in sorted((HERE / half).glob('*')) if f.is_dir()]


def load(names=()):
    """All faults, or those whose name begins with or equals one of the names."""
    faults = [Fault(f) for f in folders()]
    for name in names:
        if not any(f.name.startswith(name) for f in faults):
            raise Malformed(f'no fault is called {name!r}; expected the beginning of a folder below {HERE}')
    return [f for f in faults if not names or any(f.name.startswith(n) for n in names)]
