"""docs/guarantees.md: every sentence has a test, and what stands there of the test is there: program and cases."""
import re

ROW = re.compile(r'^\| [A-Z`].*\. \| (?P<tests>`\w+`.*|the same) \|$')
TEST = re.compile(r'`(?P<suite>e2e|all)_(?P<name>\w+)`(?:: (?P<cases>[^`;]+))?')


def cases_of(script):
    """Their names as TAP prints them; those with a part that is filled in end there."""
    text = script.read_text()
    return [name.replace('_', ' ') for name in re.findall(r'^@case\ndef (\w+)\(', text, flags=re.M)]


def missing_cases(script, wanted):
    known = cases_of(script)
    for words in wanted.split(', ') if wanted else []:
        begins = words.strip().removesuffix('...').strip()
        if not any(k.startswith(begins) if words.strip().endswith('...') else k == begins for k in known):
            yield f'{script.name} has no case "{words.strip()}"'


def check(root):
    wrong, rows = [], (root / 'docs/guarantees.md').read_text().splitlines()[6:]
    registered = {name: room for room in ('tests/tools', 'tests/suite')
                  for name in re.findall(r"'(?:e2e_)?(\w+)'", (root / room / 'meson.build').read_text())}
    for number, row in enumerate(rows, 7):
        match = ROW.match(row)
        tests = list(TEST.finditer(match['tests'])) if match else []
        if not tests and not (match and number > 7 and match['tests'] == 'the same'):
            wrong.append(f'docs/guarantees.md:{number} is no sentence with a test')
        for test in tests:
            script = root / registered.get(test['name'], '') / f"test_{test['name']}.py"
            if test['name'] not in registered or not script.exists():
                wrong.append(f"docs/guarantees.md:{number}: there is no test {test['suite']}_{test['name']}")
                continue
            wrong += [f'docs/guarantees.md:{number}: {m}' for m in missing_cases(script, test['cases'])]
    return wrong if rows else ['docs/guarantees.md holds no row']
