import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { type Cli, openCli } from './cli.js';

/** The typed words, with the word under the cursor last, and the words offered for it. */
const cases: [typed: string[], offered: string[], notOffered: string[]][] = [
  [[''], ['account', 'status', 'watch', 'doctor', 'completion', '--json'], ['create']],
  [['st'], ['status'], ['account']],
  [['account', ''], ['create', 'rotate-secret', '--help'], ['status']],
  [['--json', 'account', 'cr'], ['create'], ['list']],
  [['account', 'create', '--'], ['--name', '--scope', '--platform', '--json', '--as'], ['--account']],
  [['registration', 'list', '--state', ''], ['active', 'failing', 'paused', 'suspended'], ['--json']],
  [['registration', 'show', 'SITE0042', '--'], ['--json'], ['--state']],
  [['completion', ''], ['bash', 'zsh'], ['account']],
];

describe('operator completion', () => {
  let cli: Cli;
  const scripts: Record<string, string> = {};
  before(async () => {
    cli = await openCli({ REDIS_URL: undefined, TEMPORAL_ADDRESS: undefined });
    for (const shell of ['bash', 'zsh']) {
      const ran = await cli.run(['completion', shell]);
      assert.equal(ran.status, 0, ran.stderr);
      scripts[shell] = ran.stdout;
    }
  });
  after(() => cli.close());

  it('completes commands, options and their values in bash, as the program defines them', () => {
    const ask = `COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _operator; printf '%s\\n' "\${COMPREPLY[@]}"`;
    for (const [typed, offered, notOffered] of cases) {
      const words = ['operator', ...typed].map((word) => `'${word}'`).join(' ');
      expectOffer(
        run('bash', ['--norc', '-c', `${scripts.bash}\nCOMP_WORDS=(${words}); ${ask}`]),
        typed,
        offered,
        notOffered,
      );
    }
  });

  it('completes the same in zsh, with descriptions', function () {
    if (spawnSync('zsh', ['--version']).error) this.skip();
    // In the place of the completion system: says what is offered, all of it; zsh itself picks what fits.
    const system = `compdef() {}; _files() {}; _describe() { print -rl -- "\${(@P)2}" }`;
    for (const [typed, offered, notOffered] of cases) {
      const words = ['operator', ...typed].map((word) => `'${word}'`).join(' ');
      const ask = `words=(${words}); CURRENT=\${#words}; _operator`;
      const said = run('zsh', ['-f', '-c', `${system}\n${scripts.zsh}\n${ask}`]);
      const last = typed.at(-1) ?? '';
      const fitting = said.split('\n').filter((word) => word.startsWith(last));
      expectOffer(fitting.map((word) => word.replace(/:.*/, '')).join('\n'), typed, offered, notOffered);
    }
    const top = run('zsh', [
      '-f',
      '-c',
      `${system}\n${scripts.zsh}\nwords=(operator ''); CURRENT=2; _operator`,
    ]);
    assert.match(top, /^doctor:whether settings, clocks/m);
  });

  it('is wrong usage for another shell, and names the known ones', async () => {
    const ran = await cli.run(['completion', 'fish']);
    assert.deepEqual([ran.status, ran.stdout], [2, '']);
    assert.match(ran.stderr, /Allowed choices are bash, zsh/);
  });
});

function run(shell: string, args: readonly string[]): string {
  const { stdout, stderr, status } = spawnSync(shell, args, { encoding: 'utf8' });
  assert.deepEqual([status, stderr], [0, '']);
  return stdout;
}

function expectOffer(said: string, typed: string[], offered: string[], notOffered: string[]): void {
  const words = said.trimEnd().split('\n');
  for (const word of offered) assert.ok(words.includes(word), `${typed.join(' ')}: ${word} of ${words}`);
  for (const word of notOffered) assert.ok(!words.includes(word), `${typed.join(' ')}: not ${word}`);
}
