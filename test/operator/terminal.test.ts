import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { startProxy } from '../proxy.js';
import { servers } from '../servers.js';
import { type Cli, openCli } from './cli.js';
import { runAtTerminal } from './terminal.js';

const ESC = '\u001b';
const green = `${ESC}[32m`;
const anyColour = new RegExp(`${ESC}\\[\\d+m`);

describe('operator at a terminal', () => {
  let cli: Cli;
  let proxy: Awaited<ReturnType<typeof startProxy>>;
  before(async () => {
    cli = await openCli();
    const { account_id: accountId } = await createAccount(cli.db, { name: 'Acme' });
    for (let i = 0; i < 12; i++)
      await createClient(cli.db, { accountId, name: 'Site', clientToken: `SITE${i}` });
    proxy = await startProxy(servers().redisUrl);
  });
  after(async () => {
    await proxy.close();
    cli.close();
  });

  describe('colours', () => {
    it('appear in answers and in help', async () => {
      const [doctor, help] = await Promise.all([
        runAtTerminal(cli, ['doctor']),
        runAtTerminal(cli, ['--help']),
      ]);
      assert.ok(doctor.shown.includes(`${green}ok`), JSON.stringify(doctor.shown));
      assert.match(help.shown, anyColour);
    });

    it('do not appear with NO_COLOR', async () => {
      const env = { NO_COLOR: '1' };
      const [doctor, help] = await Promise.all([
        runAtTerminal(cli, ['doctor'], { env }),
        runAtTerminal(cli, ['--help'], { env }),
      ]);
      assert.doesNotMatch(doctor.shown, anyColour);
      assert.doesNotMatch(help.shown, anyColour);
    });

    it('do not appear without a terminal', async () => {
      for (const args of [['doctor'], ['--help'], ['status']]) {
        assert.doesNotMatch((await cli.run(args)).stdout, anyColour);
      }
    });
  });

  describe('shows progress after 2 s, and erases it at the end, for', () => {
    // The answers that follow one another: over 15 of `reencrypt`, over 80 of the others.
    const cases: [args: string[], latencyMs: number, said: RegExp, left: RegExp][] = [
      [
        ['secrets', 'reencrypt'],
        125,
        /Reencrypting: \d+ of 13 clients and accounts, \d+ s/,
        /signing secrets and request headers are now encrypted with the key/,
      ],
      [['export'], 40, /Exporting: \d+ lines, \d+ s/, /"type":"end"/],
      [
        ['reconcile'],
        40,
        /Reading: 0 notifications, 0 workflows, \d+ s/,
        /Every accepted event is accounted for/,
      ],
    ];
    for (const [args, latencyMs, said, left] of cases) {
      it(args.join(' '), async () => {
        proxy.slow({ latencyMs });
        const { shown } = await runAtTerminal(cli, args, { env: { REDIS_URL: proxy.url } });
        assert.match(shown, said);
        const [, end = ''] = shown.split(`${ESC}[2K`).slice(-2);
        assert.match(end, left);
        assert.doesNotMatch(end, said);
      });
    }

    it('import', async () => {
      proxy.slow({ latencyMs: 40 });
      const dir = await mkdtemp(join(tmpdir(), 'operator-'));
      try {
        const file = join(dir, 'facts.jsonl');
        await writeFile(file, (await cli.run(['export'])).stdout);
        const { shown } = await runAtTerminal(cli, ['import', file], { env: { REDIS_URL: proxy.url } });
        assert.match(shown, /Checking: \d+ of 13, \d+ s/);
        assert.match(shown, /Imported 0 accounts, .* 13 lines existed already/);
      } finally {
        await rm(dir, { recursive: true });
      }
    });

    it('nothing without a terminal', async () => {
      proxy.slow({ latencyMs: 40 });
      const ran = await cli.run(['export'], { env: { REDIS_URL: proxy.url } });
      assert.deepEqual([ran.status, ran.stderr], [0, '']);
    });
  });
});
