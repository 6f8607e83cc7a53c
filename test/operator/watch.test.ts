import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createLogger } from '../../src/log.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { createSweepSchedule } from '../../src/temporal/sweepSchedule.js';
import { type Harness, startHarness } from '../delivery/harness.js';
import { startProxy } from '../proxy.js';
import { servers } from '../servers.js';
import { type Cli, commandLine, openCli } from './cli.js';
import { runAtTerminal } from './terminal.js';

describe('operator watch', () => {
  let h: Harness;
  let cli: Cli;
  let client: string;

  before(async () => {
    h = await startHarness();
    await h.startWorker();
    await createSweepSchedule(h.temporal, h.taskQueue, createLogger('silent', 'test')).ensure();
    cli = await openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue });
    client = await h.newClient('http://127.0.0.1:9/hook');
    await setPaused(h.db, client, true);
    await h.publish({ client, asset: 'vid-1' });
  });
  after(async () => {
    await h.temporal.schedule.getHandle(`sweep/${h.taskQueue}`).delete();
    cli.close();
    await h.close();
  });

  it('prints one value with --once --json', async () => {
    const { at, redis_ms, worst, ...look } = await cli.json('watch', '--once');
    assert.ok(Date.parse(at) > 0 && redis_ms > 0);
    assert.deepEqual(look, {
      verdict: 'fine',
      because: 'Nothing is overdue and no endpoint fails. Clients: 1 paused by an operator (owed 1).',
      ...{ rates: null, lag_seconds: 0, lag_client: null, owed: 1, owed_clients: 1 },
      ...{ temporal: 'ok', workers: 1, broken_clients: [] },
    });
    assert.deepEqual([worst[0].client_token, worst[0].situation], [client, 'paused']);
  });

  it('prints a line for each look without a terminal, and does not fail when its reader goes away', async () => {
    const { status, stdout, stderr } = await firstLines(2, 'watch');
    assert.deepEqual([status, stderr], [0, '']);
    const lines = stdout.trimEnd().split('\n');
    assert.equal(lines.length, 2);
    for (const line of lines) assert.match(line, /^\d{4}-\S+Z {2}fine: .* {2}lag none {2}owed 1 to 1$/);
  });

  it('prints a value a line with --json', async () => {
    const { stdout } = await firstLines(2, 'watch', '--json');
    assert.deepEqual(
      stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line).owed),
      [1, 1],
    );
  });

  it('redraws the screen at a terminal, in colours, until Ctrl-C', async () => {
    const { status, shown } = await runAtTerminal(cli, ['watch'], { until: 'paused' });
    assert.ok(shown.includes('\u001b[H\u001b[32mAll is well.\u001b[39m'), JSON.stringify(shown));
    assert.equal(status, 0);
    assert.equal(shown.includes('Error'), false);
  });

  it('says that Redis is unavailable, and goes on', async () => {
    const proxy = await startProxy(servers().redisUrl);
    const child = spawn(commandLine[0] ?? '', [...commandLine.slice(1), 'watch', '--json'], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...cli.env, REDIS_URL: proxy.url },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const said: string[] = [];
    let rest = '';
    try {
      for await (const part of child.stdout) {
        const lines = (rest + String(part)).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          const { verdict, because } = JSON.parse(line);
          said.push(because === 'Redis does not answer.' ? 'away' : verdict);
        }
        if (said.length === 1) proxy.forget();
        if (said.at(-1) === 'away') proxy.reach();
        if (said.includes('away') && said.at(-1) === 'fine') break;
      }
      assert.deepEqual([...new Set(said)], ['fine', 'away']);
    } finally {
      child.kill();
      await proxy.close();
    }
  });

  it('is refused without a server', async () => {
    const ran = await cli.run(['watch'], { env: { REDIS_URL: 'redis://127.0.0.1:1' } });
    assert.deepEqual([ran.status, ran.stdout], [1, '']);
    assert.match(ran.stderr, /^Redis does not answer at redis:\/\/127\.0\.0\.1:1\.\n$/);
  });

  /** Reads the first lines, like `| head -n`. */
  function firstLines(count: number, ...args: string[]) {
    const pipe = `"$@" | head -n ${count}; exit "\${PIPESTATUS[0]}"`;
    const child = spawn('bash', ['-c', pipe, 'bash', ...commandLine, ...args], {
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...cli.env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (part) => {
      stdout += part;
    });
    child.stderr.on('data', (part) => {
      stderr += part;
    });
    return new Promise<{ status: number | null; stdout: string; stderr: string }>((resolve) =>
      child.once('close', (status) => resolve({ status, stdout, stderr })),
    );
  }
});
