import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { markProcess } from '../../local/processMark.js';
import { writeRunState } from '../../local/runState.js';
import { newClientToken } from '../../src/ids.js';
import { argumentsOf, nameOf } from '../../src/operator/operation.js';
import { groups, operations } from '../../src/operator/operations.js';
import { tableOf, written } from '../../src/operator/terminal.js';
import { tried } from '../families.js';
import { packagesLoadedWith } from '../imports.mjs';
import { forSuite, servers } from '../servers.js';
import { commandOf, openCli } from './cli.js';

describe('operator: usage', () => {
  const cli = forSuite(() => openCli());
  let dir: string;
  before(async () => {
    dir = await mkdtemp(join(tmpdir(), 'operator-'));
  });
  after(() => rm(dir, { recursive: true }));

  it('ends with exit status 0 for help, which says how npm passes options on, and which a command requires', async () => {
    const ran = await cli.run(['--help'], { alone: true });
    assert.deepEqual([ran.status, ran.stderr], [0, '']);
    assert.match(ran.stdout, /npm run -s operator -- status --json/);
    assert.equal(ran.stdout.includes('\u001b'), false, 'no colours where nobody looks');
    assert.match((await cli.run(['--version'])).stdout, /^\d+\.\d+\.\d+\S*\n$/);
    const { stdout } = await cli.run(['client', 'create', '--help']);
    assert.match(
      stdout,
      /--name <name> +name of the client \(required\)\n +--token <token> +client token \(default: random\)\n/,
    );
  });

  describe('ends with exit status 2, the reason and one hint on stderr and nothing on stdout for', () => {
    const wrong: Record<string, string> = {
      'acount list': "unknown command 'acount'\n(Did you mean account?)",
      'registration pauze X': "unknown command 'pauze'\n(Did you mean pause?)",
      'account create': "required option '--name <name>' not specified",
      'audit yesterday': "too many arguments for 'audit'. Expected 0 arguments but got 1.",
      'registration show a/b': 'error: a/b: A client token is 1 to 64 of A-Z a-z 0-9 _ -.',
      'client list --state broken':
        'error: --state broken: Allowed choices are not_registered, active, failing, paused, suspended, failed.',
      'audit --since whenever':
        'It must be a time such as 2026-01-31T12:00:00Z. Or say how long ago: 15m, 2h, 3d.',
      'client set X --max-in-flight 0': 'Give a whole number of at least 1, or "default".',
      'desk --name a\nb': 'A name is one line of 1 to 64 characters.',
      'client list --name=': '--name : must not be empty',
      'audit --since 1h --until 2h': 'The time of --since must not be later than that of --until.',
      'notification list --since 2999-01-01': 'The time of --since must not be later than now.',
      'token create --name x --role look --expires 9999999999d': 'valid, at most 3650d: 12h, 90d.',
      'client set X': 'Give --max-in-flight, --max-per-second or --quiet-seconds.',
      'explain X': 'Give <platform-id> or --event.',
      'account create --name X --scope x': 'The scopes are push_notifications, enrichments, signing_secrets.',
      'audit --of A --of B': "error: option '--of <of>' argument 'B' is invalid. Give it once.",
      'account list --as unnamed': 'Give your name.',
      'account list --reason=': 'A reason is one line of 1 to 200 characters.',
      'explain X ': 'error: : must not be empty',
      'account set X --scope=': 'error: --scope : must not be empty',
      'account disable ': 'error: : must not be empty',
      'client list --account=': 'error: --account : must not be empty',
    };
    for (const [line, said] of Object.entries(wrong)) {
      it(line, async () => {
        const { stdout, stderr, status } = await cli.run(line.split(' '));
        const named = [...operations.map(nameOf), ...Object.keys(groups)].sort((a, b) => b.length - a.length);
        // Those of every command are read by the program itself.
        const isOfAll = / --(as|reason)/.test(line);
        const of = isOfAll ? undefined : named.find((name) => `${line} `.startsWith(`${name} `));
        assert.ok(stderr.endsWith(`${said}\nSee: operator ${of ? `${of} ` : ''}--help\n`), stderr);
        assert.deepEqual([stdout, status], ['', 2]);
      });
    }

    for (const args of [[], ['account']]) {
      it(`${args[0] ?? 'no command'}, where the help says what follows`, async () => {
        const ran = await cli.run(args);
        assert.deepEqual([ran.status, ran.stdout], [2, '']);
        assert.match(ran.stderr, /^Usage: operator/);
      });
    }
  });

  // One in 64 random ids of base64url begins with it, such as those of videos.
  describe('takes a name that begins with - as it is, and an option that is nearly right as a mistake, at', () => {
    for (const operation of tried(operations, 5)) {
      const args = argumentsOf(operation);
      const words = nameOf(operation).split(' ');
      it(operation.command, async () => {
        for (const name of args.size > 0 ? ['-abc', '--Xy9_k', '-1', '-h8_json', '--no-17'] : []) {
          const { status, stderr } = await cli.run([...words, ...Array(args.size).fill(name), '--json']);
          assert.notEqual(status, 0, stderr);
          assert.match(stderr, new RegExp(`no [a-z ]+ ${name}|error: ${name}: |Give |required option`));
        }
        const members = Object.keys(operation.input.shape).filter((member) => !args.has(member));
        for (const option of [...members, 'json', 'as', 'reason'].map((one) => one.replaceAll('_', '-')))
          for (const typed of [`-${option}`, `--${option}x`, `--${option.slice(1)}`, `--${option}_=1`]) {
            const { status, stdout, stderr } = await cli.run([...words, typed]);
            assert.deepEqual([status, stdout], [2, ''], typed);
            assert.match(stderr, /^error: unknown option '.*'\n\(Did you mean --[a-z-]+\?/);
          }
      });
    }

    it('no command, for a client that has such a token; none is made at random', async () => {
      const { account_id } = await cli.json('account', 'create', '--name', 'Dashes');
      await cli.json('client', 'create', '--account', account_id, '--name', 'x', '--token', '-h8_json');
      assert.equal((await cli.json('explain', '-h8_json', '--Xy9_k')).client_token, '-h8_json');
      const made = Array.from({ length: 2000 }, newClientToken);
      assert.ok(made.every((token) => /^\w[\w-]{11}$/.test(token)));
    });
  });

  it('ends with exit status 1 and the reason if no servers are found', async () => {
    const env = { REDIS_URL: undefined, TEMPORAL_ADDRESS: undefined, DATA_DIR: dir };
    const ran = await cli.run(['account', 'list', '--json'], { env });
    assert.deepEqual([ran.status, ran.stdout], [1, '']);
    assert.match(ran.stderr, /REDIS_URL is not set and "npm start" does not run/);
    assert.match(ran.stderr, /\nRun "npm start", or set REDIS_URL and TEMPORAL_ADDRESS\.\n$/);
  });

  const door = 'http://127.0.0.1:9';
  for (const [url, token] of [
    // No command meant for a door works on the stores.
    [undefined, 'tok-1'],
    [door, ' '],
    [door, 'tok-1\ntok-2'],
    [door, '“tok-1”'],
    [door, 'tok-1 tok-2'],
    ['http://me:tok-1@127.0.0.1:9', 'crm.x'],
  ]) {
    it(`ends with exit status 1 and shows no part of what leads to no door: ${url}, ${JSON.stringify(token)}`, async () => {
      const ran = await cli.run(['status'], { env: { OPERATOR_URL: url, OPERATOR_TOKEN: token } });
      assert.deepEqual([ran.status, ran.stdout], [1, '']);
      const says =
        url === undefined ? /URL is not\.\n$/ : /^OPERATOR_(TOKEN is not one word|URL is not an http) /;
      assert.match(ran.stderr, says);
      assert.doesNotMatch(ran.stderr, /tok-|crm/);
    });
  }

  it('finds the servers that npm start runs, and its settings', async () => {
    const supervisor = markProcess(process.pid);
    assert.ok(supervisor);
    const { redisUrl, temporalAddress } = servers();
    const environment = { KEY_PREFIX: cli.prefix, REDIS_URL: redisUrl, TEMPORAL_ADDRESS: temporalAddress };
    writeRunState(dir, { supervisor, children: [], environment });
    const { account_id } = await cli.json('account', 'create', '--name', 'Found');
    const env = { REDIS_URL: undefined, TEMPORAL_ADDRESS: undefined, KEY_PREFIX: undefined, DATA_DIR: dir };
    const ran = await cli.run(['account', 'list', '--json'], { env });
    assert.equal(JSON.parse(ran.stdout)[0].account_id, account_id);
  });

  it('ends with exit status 1 if Redis does not answer, and does not show its password; status says that it is us', async () => {
    const env = { REDIS_URL: 'redis://u:hidden@127.0.0.1:1' };
    const said = 'Redis does not answer (ECONNREFUSED). REDIS_URL leads to redis://127.0.0.1:1.';
    const remedy = 'Start it, or correct REDIS_URL.';
    const answer = { status: 1, stdout: '' };
    const ran = [cli.run(['account', 'list'], { env }), cli.run(['status'], { env })];
    const stderr = [`${said}\n`, `It is us. ${said} ${remedy}\n`];
    assert.deepEqual(
      await Promise.all(ran),
      stderr.map((one) => ({ ...answer, stderr: one })),
    );
  });

  it('ends with exit status 1 and says so if its answer cannot be written', function () {
    if (!existsSync('/dev/full')) this.skip();
    const command = ['-c', 'exec "$0" "$@" > /dev/full', process.execPath, ...commandOf('--help')];
    const { status, stderr } = spawnSync('sh', command, { encoding: 'utf8' });
    assert.equal(stderr, 'The answer cannot be written: ENOSPC: no space left on device, write.\n');
    assert.equal(status, 1);
  });

  it('prints nothing else where the server asks for no password', async () => {
    const REDIS_URL = servers().redisUrl.replace('//', '//:pw@');
    const { status, stderr } = await cli.run(['account', 'list'], { env: { REDIS_URL }, alone: true });
    assert.deepEqual([status, stderr], [0, '']);
  });

  it('shows a replacement for characters that control a terminal or turn and hide text, but joiners as they are', () => {
    const hostile = ['\u001b[2J', 'a\u202egpj', 'b\u200bc', 'd\u2028e\u200df', '👩\u200d👧'].join('|');
    const shown = '\ufffd[2J|a\ufffdgpj|b\ufffdc|d\ufffde\ufffdf|👩\u200d👧';
    const parts = [{ facts: { name: hostile } }, { head: ['HEAD'], rows: [[hostile]], none: '' }];
    assert.equal(written(parts), `name  ${shown}\n\nHEAD\n${shown}`);
  });

  it('aligns the columns of a terminal, of however many rows, and cuts no character in two', () => {
    const long = 'x'.repeat(63);
    const widths = { 日本: 4, '🎬 TV': 5, ﾃﾚ: 2, مع: 2, 'e\u0301': 1, [`${long}🎬…`]: 66 };
    const shown = Object.keys(widths);
    const names = [...shown.slice(0, -1), `${long}🎬🎬`, ...Array(200_000).fill('x')];
    const table = tableOf(
      names.map((name) => ({ name, next: '|' })),
      '',
    );
    assert.ok(written([table]).includes(`${long}🎬🎬`), 'a pipe gets all');
    const lines = written([table], 66 + '  NEXT'.length).split('\n');
    const aligned = Object.entries(widths).map(([name, width]) => `${name}${' '.repeat(66 - width)}  |`);
    assert.deepEqual(lines.slice(1, 1 + aligned.length), aligned);
  });

  it('fits tables to a terminal, whose reader sees how long a command works, and gives a pipe all', async () => {
    const long = `Site ${'x'.repeat(100)}`;
    const { account_id } = await cli.json('account', 'create', '--name', long);
    const list = [process.execPath, ...commandOf('account', 'list')].join(' ');
    const onTerminal = `import pty; pty.spawn(['sh', '-c', "stty cols 60; ${list}"])`;
    const { stdout } = spawnSync('python3', ['-c', onTerminal], { env: { ...process.env, ...cli.env } });
    const shown = stripVTControlCharacters(stdout.toString()).replaceAll(/\r|Working: \d+ s/g, '');
    const rows = shown.split('\n').filter((line) => line.length > 0);
    assert.ok(rows.length >= 2 && rows.every((line) => line.length <= 60), shown);
    assert.match(shown, /Site x+…/);
    const piped = await cli.run(['account', 'list']);
    assert.match(piped.stdout, new RegExp(`${account_id}  ${long}`));
    assert.equal(piped.stderr, '');
  });

  // A package costs each command that loads it up to 0.3 s of CPU before its first word.
  it("loads neither Temporal's client nor the HTTP service: a command imports them when it connects", () => {
    const late =
      /^(@temporalio\/(?!envconfig$)|@grpc\/|protobufjs|koa|undici$|prom-client$|@opentelemetry\/)/;
    const loaded = packagesLoadedWith('src/operator/main.ts');
    const early = loaded.filter((name) => late.test(name));
    assert.deepEqual(early, []);
  });
});
