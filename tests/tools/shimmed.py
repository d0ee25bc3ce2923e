"""Runs of an act under tests/shim: one call to a file fails, is cut short or is the last one."""
import re

from e2e import BUILD
from sweep import ALL, OWN, WORK, Place

SHIM = BUILD / 'tests/shim/shim.so'
ALIKE = 6 if ALL else 1  # of calls that do the same to the same file


def shim(order, log):
    return {'LD_PRELOAD': str(SHIM), 'AB_SHIM_LOG': str(log), **({'AB_SHIM': order} if order else {})}


class Job:
    """One run of an act under the shim."""

    def __init__(self, act, number, call, what, more=''):
        self.act, self.number, self.call, self.what, self.more = act, number, call, what, more
        self.order = f'{number}{more}:{what}'

    def __call__(self, place):
        log = place.scratch.parent / f'log-{place.root.name}'
        log.write_text('')
        ran = place.run(self.act, environment=shim(self.order, log))
        self.hit = [line for line in log.read_text().splitlines() if line.endswith(' !')]
        return ran

    def __str__(self):
        return f'AB_SHIM={self.order} {self.act.name} ({self.call})'


def calls_of(act):
    """[(number, name, line)], only the first few of those that do the same to the same."""
    place = Place()
    log = place.scratch.parent / 'calls'
    log.unlink(missing_ok=True)
    place.run(act, environment=shim(None, log))
    seen, chosen = {}, []
    for number, line in enumerate(log.read_text().splitlines(), 1):
        alike = re.sub(re.escape(OWN) + r'[\w-]+', OWN, line)
        seen[alike] = seen.get(alike, 0) + 1
        if seen[alike] <= ALIKE:
            chosen.append((number, line.split()[0], line.replace(str(WORK), '')))
    return number, chosen
