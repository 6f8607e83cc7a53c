import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { markProcess } from '../../local/processMark.js';
import { writeRunState } from '../../local/runState.js';
import { servers } from '../servers.js';
import { type Cli, openCli, type Ran } from './cli.js';

describe('operator: usage', () => {
  let cli: Cli;
  before(async () => {
    cli = await openCli();
  });
  after(() => cli.close());

  const run: Cli['run'] = (args, options) => cli.run(args, { ...options, alone: true });

  it('ends with exit status 0 for help, which names every command', async () => {
    const ran = await run(['--help']);
    assert.equal(ran.status, 0);
    assert.equal(ran.stderr, '');
    for (const command of [
      'account',
      'client',
      'registration',
      'notification',
      'explain',
      'status',
      'doctor',
      'audit',
      'demo',
    ]) {
      assert.match(ran.stdout, new RegExp(`^ {2}${command}\\b`, 'm'));
    }
    assert.equal(ran.stdout.includes('\u001b'), false, 'no colours where nobody looks');
  });

  describe('ends with exit status 2, help on stderr and nothing on stdout for', () => {
    const wrong = [
      ['no command', [], /Usage: operator/],
      ['a group without its command', ['account'], /Usage: operator account/],
      ['a typo, with what was meant', ['acount', 'list'], /Did you mean account\?/],
      ['a typo, with the nearest command', ['docter'], /Did you mean doctor\?/],
      ['a typo within a group', ['registration', 'rest', 'X'], /Did you mean (reset|list)\?/],
      ['a missing option', ['account', 'create'], /--name/],
      ['an unknown option, with what was meant', ['account', 'list', '--jsn'], /Did you mean --json\?/],
      ['a missing argument', ['client', 'delete'], /missing required argument/],
      ['too many arguments', ['audit', 'yesterday'], /too many arguments/],
      ['a malformed client token', ['registration', 'show', 'a b'], /1 to 64 of/],
      [
        'an unknown state',
        ['registration', 'list', '--state', 'broken'],
        /active, failing, paused, suspended/,
      ],
      ['a moment that is neither a date nor a duration', ['audit', '--since', 'whenever'], /15m, 2h, 3d/],
      ['nothing to set', ['client', 'set', 'X'], /--max-in-flight/],
    ] as const;
    let runs: Promise<Ran>[] = [];
    before(() => {
      runs = wrong.map(([, args]) => run(args));
    });
    wrong.forEach(([what, , said], i) => {
      it(what, async () => {
        const ran = await runs[i];
        assert.ok(ran);
        assert.equal(ran.status, 2, ran.stderr);
        assert.match(ran.stderr, said);
        assert.match(ran.stderr, /Usage: /);
        assert.equal(ran.stdout, '');
      });
    });
  });

  it('ends with exit status 1 and the reason if no servers are found', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'operator-'));
    try {
      const ran = await run(['account', 'list', '--json'], {
        env: { REDIS_URL: undefined, TEMPORAL_ADDRESS: undefined, DATA_DIR: dir },
      });
      assert.equal(ran.status, 1);
      assert.match(ran.stderr, /REDIS_URL is not set and "npm start" does not run/);
      assert.match(ran.stderr, /\nRun "npm start", or set REDIS_URL and TEMPORAL_ADDRESS\.\n$/);
      assert.equal(ran.stdout, '');
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  it('finds the servers that npm start runs, and its settings', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'operator-'));
    const supervisor = markProcess(process.pid);
    assert.ok(supervisor);
    writeRunState(dir, {
      supervisor,
      children: [],
      redisUrl: servers().redisUrl,
      temporalAddress: servers().temporalAddress,
      environment: { KEY_PREFIX: cli.prefix },
    });
    try {
      const made = await cli.json('account', 'create', '--name', 'Found');
      const ran = await run(['account', 'list', '--json'], {
        env: { REDIS_URL: undefined, TEMPORAL_ADDRESS: undefined, KEY_PREFIX: undefined, DATA_DIR: dir },
      });
      assert.equal(ran.status, 0, ran.stderr);
      assert.ok(JSON.parse(ran.stdout).some((a: { account_id: string }) => a.account_id === made.account_id));
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  it('ends with exit status 1 if Redis does not answer, and does not show its password', async () => {
    const ran = await run(['account', 'list'], { env: { REDIS_URL: 'redis://u:hidden@127.0.0.1:1' } });
    assert.equal(ran.status, 1);
    assert.match(ran.stderr, /Redis does not answer/);
    assert.equal(ran.stderr.includes('hidden'), false);
  });
});
