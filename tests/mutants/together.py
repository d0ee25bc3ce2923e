"""All unit tests of one folder as one program: a mutant then costs one compilation, one link and one run.

Every test program's main gets a name of its own, and a driver calls those that are asked for until one is red, each in
a child, since some count what is allocated. Tests that replace functions (--wrap) share a program with those alone that
replace the same.
"""
import os
import shlex
import subprocess

import scratch

DRIVER = '''#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
%s
static const struct { const char *name; int (*run)(void); } tests[] = {%s};
int main(int count, char **names) {
  setvbuf(stdout, NULL, _IOLBF, 0); /* who reads it ends all at the first 'not ok' */
  for (int i = 1; i < count; i++)
    for (unsigned t = 0; t < sizeof tests / sizeof *tests; t++)
      if (strcmp(names[i], tests[t].name) == 0) {
        int status = 1;
        fprintf(stderr, "%%s\\n", names[i]);
        pid_t child = fork();
        if (child == 0) return tests[t].run();
        if (waitpid(child, &status, 0) != child || status) return 1;
      }
  return 0;
}
'''


def replaced(link):
    return tuple(word for word in link if word.startswith('-Wl,--wrap='))


class Program:
    """Tests that replace the same functions; links: {name: the command that links its own program}."""

    def __init__(self, build, links):
        self.build, self.names = build, list(links)
        first = self.names[0]
        self.path = build / ('together-' + first)
        objects = [self.rename(name, link) for name, link in links.items()]
        driver = build / f'together-{first}.c'
        driver.write_text(DRIVER % (''.join(f'int main_{n}(void);\n' for n in links),
                                    ', '.join(f'{{"{n}", main_{n}}}' for n in links)))
        link = links[first]
        at = next(i for i, word in enumerate(link) if word.endswith('.c.o'))
        self.link = [w for w in link if not w.endswith('.c.o')]
        self.link[self.link.index('-o') + 1] = str(self.path)
        self.link[at:at] = objects + [str(driver)]
        others = [w for other in links.values() for w in other if w.endswith(('.a', '.so'))]
        group = self.link.index('-Wl,--start-group') + 1 if '-Wl,--start-group' in self.link else len(self.link)
        self.link[group:group] = dict.fromkeys(w for w in others if w not in self.link)

    def rename(self, name, link):
        source = next(w for w in link if w.endswith('.c.o'))
        renamed = self.build / f'together-{name}.o'
        subprocess.run(['objcopy', '--redefine-sym', f'main=main_{name}', str(self.build / source), str(renamed)],
                       check=True)
        return str(renamed)

    def first_red(self, names, env, limit):
        """The name of the first test that is red, or None. A program that does not link is red too."""
        if subprocess.run(self.link, cwd=self.build, capture_output=True, check=False).returncode:
            return 'link'
        passed, seen = scratch.green([str(self.path), *names], env, limit, self.build)
        return None if passed else next((line for line in reversed(seen) if line in names), 'start')


class Together:
    def __init__(self, tree, names):
        self.tree, self.compile, groups = tree, {}, {}
        targets = [tree.test_targets(name) for name in names]
        if not tree.ninja(*sum(targets, []))[0]:
            raise RuntimeError(f'the tests {names} do not build')
        for name, target in zip(names, targets):
            link = self.command(target[0])
            groups.setdefault(replaced(link), {})[name] = link
        self.programs = [Program(tree.build, links) for links in groups.values()]
        self.env = tree.tests[names[0]]['env']

    def command(self, target):
        """The last command that makes a target."""
        done = subprocess.run(['ninja', '-C', str(self.tree.build), '-t', 'commands', '-s', target],
                              capture_output=True, text=True, check=True)
        return shlex.split([l for l in done.stdout.splitlines() if not l.startswith('ninja:')][-1])

    def compiles(self, file):
        if file not in self.compile:
            self.compile[file] = self.command(self.tree.objects[file][0])
        return subprocess.run(self.compile[file], cwd=self.tree.build, capture_output=True, check=False).returncode == 0

    def first_red(self, names, limit):
        reds = (p.first_red([n for n in p.names if n in names], self.env, limit) for p in self.programs)
        return next(filter(None, reds), None)
