"""Names that lead outside and things in the place of files: nothing outside the named folder changes, nothing blocks.

Each row plants one thing in a case, a bundle, an inventory or an output, runs the commands that would read or write it,
and compares a decoy tree beside it byte for byte, links, modes and all.
"""
import hashlib
import os
import shutil
import socket
import stat

from e2e import DIFFERENT, EQUAL, GOLDEN, USAGE, case, check, cases, main
from sweep import ACTS, BUNDLE, OWN, TOOLS, Act, Place, undisturbed

NAMED = {act.name: act for act in ACTS}
REASON = ['--reason', 'to see it fail']
RECORD, ACCEPT, REJECT = ['record', 'case', *REASON], ['accept', 'case', *REASON], ['reject', 'case']
COMPARE, CHECK, REVIEW = ['case'], ['check', 'case'], ['review', 'case']
BAD = (USAGE, GOLDEN)


def fingerprint(root):
    rows = []
    for path in sorted(root.rglob('*')):
        about = path.lstat()
        data = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ''
        rows.append((str(path.relative_to(root)), about.st_mode, about.st_ino, data))
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def replace(name, plant):
    """Puts something in the place of case/NAME."""
    def act(top):
        path = top / 'case' / name
        if path.exists():
            path.unlink()
        plant(path)
    return act


def link(target):
    return lambda path: path.symlink_to(target)


def bind(path):
    where = os.getcwd()
    os.chdir(path.parent)
    s = socket.socket(socket.AF_UNIX)
    s.bind(path.name)
    s.close()
    os.chdir(where)


def device(path):
    try:
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        path.symlink_to('/dev/null')


def hard(name):
    return lambda path: os.link(path.parent.parent / 'decoy' / name, path)


def inventory(line):
    def act(top):
        shutil.copytree(top / 'case', top / 'out/cases/case')
        (top / 'out/cases/inventory').write_text(f'case\n{line}\n')
    return act


def base_config(name):
    def act(top):
        config = top / 'case/config.yml'
        config.write_text(f'base_config: {name}\n' + config.read_text())
    return act


def elsewhere(name):
    """The case is behind a link."""
    def act(top):
        shutil.copytree(top / 'case', top / 'out/real/case')
        shutil.rmtree(top / 'case')
        (top / 'case').symlink_to(name)
    return act


def in_out(name, plant):
    return lambda top: plant(top / 'out' / name)


def nothing(_):
    pass


INVENTORY = [('golden', ['check', '--no-run', 'out/cases'], BAD), ('golden', ['list', 'out/cases'], (USAGE, EQUAL))]
GOLDEN_WRITERS = [('golden', RECORD, BAD), ('golden', ACCEPT, BAD), ('compare', COMPARE, BAD)]
PENDING = [('golden', ACCEPT, (USAGE, GOLDEN, EQUAL)), ('compare', COMPARE, (DIFFERENT,)),
           ('compare', [*COMPARE, '--require-pending'], (USAGE,)), ('golden', REVIEW, BAD)]


def import_to(target):
    return [('golden', ['import', BUNDLE, target], (USAGE,))]


def out_to(option, target):
    return [('compare', ['case', option, target], (USAGE,))]


ROWS = [
    ('an inventory that goes up', inventory('../../decoy/case'), INVENTORY),
    ('an absolute inventory', inventory('/etc'), INVENTORY),
    ('an inventory that comes back', inventory('case/../../../decoy/case'), INVENTORY),
    ('an inventory of itself', inventory('.'), INVENTORY),
    ('an inventory of its parent', inventory('..'), INVENTORY),
    ('an inventory with an empty component', inventory('case//x'), INVENTORY),
    ('an inventory with a control byte', inventory('ca\x01se'), INVENTORY),
    ('an inventory with a name of 300 bytes', inventory('x' * 300), INVENTORY),
    ('an inventory with a name of 2000 bytes', inventory('x' * 2000), INVENTORY),
    ('an inventory with encoded dots', inventory('%2e%2e/decoy'), INVENTORY),
    ('a base config that goes up', base_config('../decoy/base.yml'), [('compare', COMPARE, (USAGE,))]),
    ('an absolute base config', base_config('/etc/passwd'), [('compare', COMPARE, (USAGE,))]),
    ('an upload that goes up', nothing, [('golden', ['accept', 'decoy/../case', '--from', 'decoy/upload', *REASON],
                                          (USAGE, GOLDEN))]),
    ('a golden that is a link', replace('golden.json', link('../decoy/case/golden.json')),
     [('golden', RECORD, (USAGE,)), ('golden', ACCEPT, (USAGE, GOLDEN))]),
    ('a golden that is a dead link', replace('golden.json', link('../decoy/new')), GOLDEN_WRITERS),
    ('a golden that is a loop', replace('golden.json', link('golden.json')), GOLDEN_WRITERS),
    ('a golden that is a FIFO', replace('golden.json', os.mkfifo), GOLDEN_WRITERS),
    ('a golden that is a socket', replace('golden.json', bind), GOLDEN_WRITERS),
    ('a golden that is a device', replace('golden.json', device), GOLDEN_WRITERS),
    ('a golden that is a folder', replace('golden.json', os.mkdir), GOLDEN_WRITERS),
    ('a golden with another name', replace('golden.json', hard('case/golden.json')),
     [('golden', RECORD, (EQUAL,)), ('golden', ACCEPT, (EQUAL,))]),
    ('a pending golden that is a link', replace('golden.pending.json', link('../decoy/secret')), PENDING),
    ('a pending golden that is a FIFO', replace('golden.pending.json', os.mkfifo), PENDING),
    ('a pending golden that is a folder', replace('golden.pending.json', os.mkdir), PENDING),
    ('a pending golden that is rejected', replace('golden.pending.json', link('../decoy/secret')),
     [('golden', REJECT, (EQUAL,))]),
    ('a config that is a FIFO', replace('config.yml', os.mkfifo), GOLDEN_WRITERS),
    ('weights that are a FIFO', replace('params.safetensors', os.mkfifo), GOLDEN_WRITERS),
    ('a bundle with a link', replace('params.safetensors', link('../decoy/secret')),
     [('golden', ['import', 'case', 'out/made'], (USAGE, GOLDEN))]),
    ('a case behind a link', elsewhere('out/real/case'), [('golden', RECORD, (EQUAL,))]),
    ('a case behind a loop', elsewhere('case'), [('golden', RECORD, (USAGE,)), ('compare', COMPARE, (USAGE,))]),
    ('an import onto a link', in_out('made', link('../decoy/empty')), import_to('out/made')),
    ('an import onto a FIFO', in_out('made', os.mkfifo), import_to('out/made')),
    ('an import onto the decoy', nothing, import_to('decoy')),
    ('an import onto nothing', nothing, import_to('')),
    ('an import with a name of 300 bytes', nothing, import_to('out/' + 'x' * 300)),
    ('a dump onto a link', in_out('dump', link('../decoy/empty')), out_to('--dump', 'out/dump')),
    ('a dump onto the decoy', nothing, out_to('--dump', 'out/../decoy')),
    ('a dump onto a FIFO', in_out('dump', os.mkfifo), out_to('--dump', 'out/dump')),
    ('a report onto a FIFO', in_out('r', os.mkfifo), out_to('--json', 'out/r')),
    ('a report onto a folder', nothing, out_to('--json', 'decoy')),
    ('a report onto a socket', in_out('r', bind), out_to('--json', 'out/r')),
    ('a report onto a loop', in_out('r', link('r')), out_to('--json', 'out/r')),
    ('a report with a name of 300 bytes', nothing, out_to('--json', 'out/' + 'x' * 300)),
]


def prepare(place, plant):
    place.prepare('pending')
    decoy = place.root / 'decoy'
    shutil.copytree(place.root / 'case', decoy / 'case')
    (decoy / 'empty').mkdir()
    (decoy / 'secret').write_text('secret')
    (decoy / 'base.yml').write_text('steps: 1\n')
    (decoy / 'upload').mkdir()
    (decoy / 'upload/golden.pending.json').symlink_to('../case/golden.pending.json')
    plant(place.root)


def hold(name, plant, runs):
    place = Place()
    for tool, words, codes in runs:
        prepare(place, plant)
        before = fingerprint(place.root / 'decoy')
        ran = place.collect(place.start(Act(name, tool, words, 'pending', EQUAL)))
        said = f'{tool} {words}: exit {ran.code}: {ran.out[-300:]}{ran.err[-300:]}'
        check(ran.code in codes, said)
        check(ran.code == EQUAL or ran.out + ran.err, f'{said}: without a word')
        check(fingerprint(place.root / 'decoy') == before, f'{said}: something outside was changed')
        check(not ran.left and not [p for p in ran.files if OWN in p], f'{said}: left {ran.left}')


def register(row):
    def act():
        undisturbed(NAMED['check'])
        hold(*row)
    cases.append((f'{row[0]} changes nothing outside and does not block', act))


@case
def a_planted_temporary_name_is_not_written_through():
    undisturbed(NAMED['record'])
    place = Place()
    for words in (RECORD, ACCEPT):
        prepare(place, nothing)
        before = fingerprint(place.root / 'decoy')
        plant = 'for i in 0 1 2; do ln -s ../decoy/secret case/.ab-tmp-$$-$i; done; exec "$0" "$@"'
        ran = place.collect(place.start_words(['sh', '-c', plant, TOOLS['golden'], *words]))
        check(ran.code == EQUAL, f'{words}: exit {ran.code}: {ran.err}')
        check(fingerprint(place.root / 'decoy') == before, f'{words}: something outside was changed')
        check('case/golden.json' in ran.files, 'no golden')


for each in ROWS:
    register(each)
main()
