"""All unit tests of one folder as one program: a mutant then costs one compilation, one link and one run.

Every test program's main gets a name of its own, and a driver calls those that are asked for until one is red, each in
a child, since some count what is allocated.
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


class Together:
    def __init__(self, tree, names):
        self.tree, self.names, self.compile = tree, names, {}
        self.program = tree.build / ('together-' + names[0])
        targets = [tree.test_targets(name) for name in names]
        if not tree.ninja(*sum(targets, []))[0]:
            raise RuntimeError(f'the tests {names} do not build')
        objects = []
        for name, target in zip(names, targets):
            objects.append(self.rename(name, self.command(target[0])))
        driver = tree.build / f'together-{names[0]}.c'
        driver.write_text(DRIVER % (''.join(f'int main_{n}(void);\n' for n in names),
                                    ', '.join(f'{{"{n}", main_{n}}}' for n in names)))
        link = self.command(targets[0][0])
        at = next(i for i, word in enumerate(link) if word.endswith('.c.o'))
        self.link = [w for w in link if not w.endswith('.c.o')]
        self.link[self.link.index('-o') + 1] = str(self.program)
        self.link[at:at] = objects + [str(driver)]
        others = [w for target in targets[1:] for w in self.command(target[0]) if w.endswith(('.a', '.so'))]
        group = self.link.index('-Wl,--start-group') + 1 if '-Wl,--start-group' in self.link else len(self.link)
        self.link[group:group] = dict.fromkeys(w for w in others if w not in self.link)
        self.env = tree.tests[names[0]]['env']

    def command(self, target):
        """The last command that makes a target."""
        done = subprocess.run(['ninja', '-C', str(self.tree.build), '-t', 'commands', '-s', target],
                              capture_output=True, text=True, check=True)
        return shlex.split([l for l in done.stdout.splitlines() if not l.startswith('ninja:')][-1])

    def rename(self, name, link):
        source = next(w for w in link if w.endswith('.c.o'))
        renamed = self.tree.build / f'together-{name}.o'
        subprocess.run(['objcopy', '--redefine-sym', f'main=main_{name}', str(self.tree.build / source), str(renamed)],
                       check=True)
        return str(renamed)

    def compiles(self, file):
        if file not in self.compile:
            self.compile[file] = self.command(self.tree.objects[file][0])
        return subprocess.run(self.compile[file], cwd=self.tree.build, capture_output=True, check=False).returncode == 0

    def first_red(self, names, limit):
        """The name of the first test that is red, or None. A program that does not link is red too."""
        if subprocess.run(self.link, cwd=self.tree.build, capture_output=True, check=False).returncode:
            return 'link'
        passed, seen = scratch.green([str(self.program), *names], self.env, limit, self.tree.build)
        return None if passed else next((line for line in reversed(seen) if line in names), 'start')
