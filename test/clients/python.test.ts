import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { portOf, startReceiver, until } from '../receiver.js';
import { afterTest, opened } from '../servers.js';
import { run as runTool } from '../tools.js';
import { eventOf, type PublishedTo, startPublishedTo } from './service.js';

const source = join(import.meta.dirname, '../../clients/python/src');

interface Result {
  event_id: string | null;
  notification?: string;
  reason?: string;
  code?: string;
}
type Change = (call: number, results: Result[]) => Result[] | Promise<Result[]>;

describe('clients/python', () => {
  let to: PublishedTo;
  /** The service's answers to calls of POST /enrichments. */
  let statuses: number[];

  beforeEach(async () => {
    to = opened(await startPublishedTo());
    statuses = [];
  });

  /** @param change alters the service's answer to a batch */
  async function url(change: Change = (_, results) => results): Promise<string> {
    const between = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part);
      const { authorization, 'content-type': type = '' } = request.headers;
      const answer = await fetch(`${to.api.url}${request.url}`, {
        method: 'POST',
        headers: { 'content-type': type, ...(authorization && { authorization }) },
        body: Buffer.concat(parts),
      });
      const body = (await answer.json()) as { results?: Result[] };
      if (request.url === '/enrichments') statuses.push(answer.status);
      if (body.results) body.results = await change(statuses.length, body.results);
      const retryAfter = answer.headers.get('retry-after');
      response.writeHead(answer.status, retryAfter === null ? {} : { 'retry-after': retryAfter });
      response.end(JSON.stringify(body));
    });
    afterTest(() => {
      between.closeAllConnections();
      between.close();
    });
    return `http://127.0.0.1:${await portOf(between)}`;
  }

  /** @param events an event, or a line as it is */
  function run(address: string, events: (object | string)[], isRead = true) {
    const child = spawn('python3', ['-B', '-m', 'asset_update_client', address], {
      env: {
        PATH: process.env.PATH,
        PYTHONPATH: source,
        CLIENT_ID: to.account.client_id,
        CLIENT_SECRET: to.account.client_secret,
      },
    });
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text: string) => {
        said[name] += text;
      });
    }
    if (!isRead) child.stdout.destroy();
    const lines = events.map((one) => (typeof one === 'string' ? one : JSON.stringify(one)));
    child.stdin.end(lines.map((line) => `${line}\n`).join(''));
    return new Promise<{ status: number | null; results: Result[]; stderr: string }>((resolve) =>
      child.once('close', (status) => {
        const lines = said.stdout.split('\n').filter((line) => line !== '');
        resolve({ status, results: lines.map((line) => JSON.parse(line)), stderr: said.stderr });
      }),
    );
  }

  const event = (n: number, more: object = {}) => ({
    ...eventOf(to, n),
    ...more,
  });
  const events = (count: number) => Array.from({ length: count }, (_, n) => event(n));

  it('publishes each event once, in calls below 1 MiB, and prints the result of each', async () => {
    const segments = Array.from({ length: 90 }, (_, n) => `${n}`.padEnd(128, '-'));
    const long = events(100).map((one) => ({ ...one, segments }));
    const { status, results, stderr } = await run(await url(), [...long, ...events(250).slice(100)]);
    assert.deepEqual([status, stderr, statuses], [0, '', [202, 202, 202]]);
    assert.equal(results.filter(({ notification }) => notification === 'queued').length, 250);
    await to.assertEachOnce(250);
  });

  it('sends the same events again after a 503 until they are accepted, each once', async () => {
    const address = await url((call, results) => {
      if (call === 1) to.redis.hang();
      return results;
    });
    const ran = run(address, events(200));
    await until('a call was answered 503', () => statuses.includes(503));
    to.redis.release();
    const { status, stderr } = await ran;
    assert.equal(status, 0);
    assert.match(stderr, /^http:\S+: 503, to wait \d s; 100 events are sent again\n$/);
    await to.assertEachOnce(200);
  });

  it('follows no redirect, which would carry its secrets elsewhere', async () => {
    const elsewhere = await startReceiver();
    elsewhere.answer = () => ({ status: 302, headers: { location: '/elsewhere' } });
    const { stderr } = await run(elsewhere.url, events(1));
    assert.deepEqual([stderr, elsewhere.received.length], ['refused: 302 \n', 1]);
  });

  it('checks every item: prints refused events, repeats unknown ones, and the others are accepted', async () => {
    const unknown = { event_id: null, code: 'temporarily_unavailable' };
    const lost: Change = (call, results) => (call === 1 ? [...results.slice(0, 3), unknown] : results);
    const { status, results } = await run(await url(lost), [
      event(0),
      event(1, { client_token: 'NOBODY' }),
      event(2, { segments: [''] }),
      event(3),
      event(4),
    ]);
    assert.equal(status, 1);
    const outcomes = results.map(({ notification, code }) => notification ?? code);
    assert.deepEqual(outcomes, ['queued', 'unknown_client', 'invalid_event', 'queued', 'queued']);
    assert.deepEqual(statuses, [202, 202]);
    await to.assertEachOnce(3);
  });

  /** Answers in the service's place: a status, or 202 with an unknown item. */
  async function startFake(script: (number | 'unknown')[], headers = {}) {
    const fake = await startReceiver();
    fake.answer = ({ path }) => {
      if (!path.endsWith('/enrichments')) return { status: 200, body: '{"access_token":"t"}' };
      const now = script.shift();
      const item = now === 'unknown' ? { code: 'temporarily_unavailable' } : { notification: 'queued' };
      const body = JSON.stringify({ results: [item] });
      return { status: typeof now === 'number' ? now : 202, body, ...(now === 503 && { headers }) };
    };
    return fake.url;
  }

  const scripts: [first: string, told: number, ...script: (number | 'unknown')[]][] = [
    ['an unknown item', 202, 'unknown', 202],
    ['a token that has ended', 503, 401, 503, 202],
    ['tokens that end before and after an outage', 503, 401, 503, 401, 202],
  ];
  for (const [first, told, ...script] of scripts) {
    it(`sends again, and tells why, until an event is accepted: ${first}`, async () => {
      const address = await startFake(script);
      const { status, stderr } = await run(address, [event(0)]);
      assert.deepEqual([status, stderr], [0, `${address}: ${told}; 1 events are sent again\n`]);
    });
  }

  it('waits as long as Retry-After says, in seconds or by a date, for a day at most', async () => {
    for (const [retryAfter, least, most] of [
      ['9'.repeat(12), 86_400, 108_000],
      [new Date(Date.now() + 1_000_000).toUTCString(), 900, 1_250],
      ['Sun Nov  6 08:49:37 1994', 0.1, 0.2],
      ['soon', 0.1, 0.2],
    ] as const) {
      const address = await startFake([503, 202], { 'retry-after': retryAfter });
      const program = `import time, asset_update_client as client
time.sleep = print
list(client.Publisher("${address}", "a", "b").publish([{}]))`;
      const env = { PYTHONPATH: source, TZ: 'Asia/Tokyo' };
      const { stdout } = await runTool('python3', ['-B', '-c', program], { env });
      assert.ok(Number(stdout) >= least && Number(stdout) <= most, stdout);
    }
  });

  it('says without a trace that nobody takes its results any more', async () => {
    const { status, stderr } = await run(await url(), events(3), false);
    assert.equal(status, 1);
    assert.match(stderr, /^broke off \(\[Errno 32\] Broken pipe\): .*\n$/);
  });

  it('names the lines that are no events, and publishes the others', async () => {
    const bad = ['{"client_token":', '[1]', '"x"', 'null', '1', '{"segments":[NaN]}', '{"a":-Infinity}'];
    const { status, results, stderr } = await run(await url(), [event(0), ...bad, '', event(1)]);
    assert.deepEqual([status, results.length], [1, 2]);
    assert.equal(stderr, bad.map((_, i) => `line ${i + 2} is not a JSON object\n`).join(''));
  });

  it('refuses an address that is none, without a trace and without what may be secret', async () => {
    const useless = [
      'localhost:3000',
      'http://',
      'ftp://h',
      'http://u:secret@h',
      'http://h?a=secret',
      'http://h:x',
      'http://h\n',
      'http://h/a b',
      'http://h/ä',
    ];
    const ran = await Promise.all(useless.map((address) => run(address, [event(0)])));
    for (const { status, stderr } of ran) {
      assert.deepEqual([status, stderr.split('\n').length], [1, 2], stderr);
      assert.match(stderr, /^refused: (?!.*secret)/);
    }
  });
});
