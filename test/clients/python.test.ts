import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { startReceiver, until } from '../receiver.js';
import { run as runTool } from '../tools.js';
import { usePublishedTo } from './service.js';

const source = join(import.meta.dirname, '../../clients/python/src');

interface Result {
  event_id: string | null;
  notification?: string;
  reason?: string;
  code?: string;
}
type Change = (call: number, results: Result[]) => Result[] | Promise<Result[]>;

describe('clients/python', () => {
  const to = usePublishedTo();
  /** The service's answers to calls of POST /enrichments. */
  let statuses: number[];

  beforeEach(() => {
    statuses = [];
  });

  /** @param change alters the service's answer to a batch */
  async function url(change: Change = (_, results) => results): Promise<string> {
    const between = await startReceiver();
    between.answer = async ({ path, headers: { authorization = '', 'content-type': type = '' }, body }) => {
      const asked = { method: 'POST', headers: { 'content-type': type, authorization }, body };
      const answer = await fetch(`${to.api.url}${path.replace('/hook', '')}`, asked);
      const told = (await answer.json()) as { results?: Result[] };
      if (path.endsWith('/enrichments')) statuses.push(answer.status);
      if (told.results) told.results = await change(statuses.length, told.results);
      const passedOn = { 'retry-after': answer.headers.get('retry-after') ?? '0' };
      return { status: answer.status, headers: passedOn, body: JSON.stringify(told) };
    };
    return between.url;
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

  it('publishes each event once, in calls below 1 MiB, and prints the result of each', async () => {
    const segments = Array.from({ length: 90 }, (_, n) => `${n}`.padEnd(128, '-'));
    const long = to.events(100).map((one) => ({ ...one, segments }));
    const { status, results, stderr } = await run(await url(), [...long, ...to.events(250).slice(100)]);
    assert.deepEqual([status, stderr, statuses], [0, '', [202, 202, 202]]);
    assert.equal(results.filter(({ notification }) => notification === 'queued').length, 250);
    await to.assertEachOnce(250);
  });

  it('sends the same events again after a 503 until they are accepted, each once', async () => {
    const address = await url((call, results) => {
      if (call === 1) to.redis.hang();
      return results;
    });
    const ran = run(address, to.events(200));
    await until('a call was answered 503', () => statuses.includes(503));
    to.redis.release();
    const { status, stderr } = await ran;
    assert.equal(status, 0);
    assert.match(stderr, /^http:\S+: 503, to wait \d s; 100 events are sent again\n$/);
    await to.assertEachOnce(200);
  });

  it('follows no redirect, which would carry its secrets elsewhere', async () => {
    const elsewhere = await startReceiver();
    elsewhere.answer = () =>
      elsewhere.received.length > 1
        ? { status: 400, body: '{"error":"invalid_scope"}' }
        : { status: 302, headers: { location: '/elsewhere' } };
    const { stderr } = await run(elsewhere.url, to.events(1));
    assert.match(stderr, /: 302; 1 events are sent again\nrefused: 400 {"error":"invalid_scope"}\n$/);
    assert.deepEqual([...new Set(elsewhere.received.map(({ path }) => path))], ['/hook/oauth/access_token']);
  });

  it('checks every item: prints refused events, repeats unknown ones, and the others are accepted', async () => {
    const unknown = { event_id: null, code: 'temporarily_unavailable' };
    const lost: Change = (call, results) => (call === 1 ? [...results.slice(0, 4), unknown] : results);
    const { status, results } = await run(await url(lost), [
      to.event(0),
      to.event(1, { client_token: 'NOBODY' }),
      to.event(2, { segments: [''] }),
      to.event(3, { event_id: '' }),
      to.event(4),
      to.event(5),
    ]);
    assert.equal(status, 1);
    const outcomes = results.map(({ notification, code }) => notification ?? code);
    const refused = ['unknown_client', 'invalid_event', 'invalid_event'];
    assert.deepEqual(outcomes, ['queued', ...refused, 'queued', 'queued']);
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

  /** @returns what the program prints, which has the module as `client` */
  async function runProgram(program: string): Promise<string> {
    const env = { PYTHONPATH: source, TZ: 'Asia/Tokyo' };
    const text = `import time, asset_update_client as client\n${program}`;
    return (await runTool('python3', ['-B', '-c', text], { env })).stdout;
  }

  it('publishes a full call before it asks for another event', async () => {
    const printed = await runProgram(`client.EVENTS_IN_A_CALL = 1
def read_events():
    yield {}
    print("asked")
for _, result in client.Publisher("${await startFake([202])}", "a", "b").publish(read_events()):
    print(result["notification"])`);
    assert.equal(printed, 'queued\nasked\n');
  });

  it('gets a new token also where another thread has noted first that theirs has ended', async () => {
    const printed = await runProgram(`class Shared(client.Publisher):
    _token = property(lambda self: None, lambda self, token: None)
for _, result in Shared("${await startFake([401, 202])}", "a", "b").publish([{}]):
    print(result["notification"])`);
    assert.equal(printed, 'queued\n');
  });

  it('sends half as many events after 408', async () => {
    const service = await startReceiver();
    const sizes: number[] = [];
    service.answer = ({ path, body }) => {
      if (!path.endsWith('/enrichments')) return { status: 200, body: '{"access_token":"t"}' };
      const { length } = (JSON.parse(body) as { events: unknown[] }).events;
      sizes.push(length);
      const results = Array.from({ length }, () => ({ notification: 'queued' }));
      if (sizes.length > 5) return 400;
      return { status: length > 2 ? 408 : 202, body: JSON.stringify({ results }) };
    };
    const { status } = await run(service.url, to.events(5));
    assert.deepEqual([status, ...sizes], [0, 5, 3, 2, 2, 1]);
  });

  for (const [what, status, body, code] of [
    ['a gateway that takes less than a call', 413, '<html>', 'unexpected_answer'],
    ['the service, where one spoils the call', 400, '{"code":"invalid_json","msg":"m"}', 'invalid_json'],
  ] as const)
    it(`sends events in parts, and refuses one alone, after ${status} of ${what}`, async () => {
      const service = await startReceiver();
      service.answer = (asked) => {
        if (!asked.path.endsWith('/enrichments')) return { status: 200, body: '{"access_token":"t"}' };
        const { events } = JSON.parse(asked.body) as { events: { platform_id: string }[] };
        if (events.some(({ platform_id }) => platform_id === 'video-2')) return { status, body };
        const results = events.map(() => ({ notification: 'queued' }));
        return { status: 202, body: JSON.stringify({ results }) };
      };
      const { status: exit, results, stderr } = await run(service.url, to.events(5));
      assert.match(stderr, new RegExp(`: ${status}; 5 events are sent again`));
      const outcomes = results.map((one) => one.notification ?? one.code);
      assert.deepEqual([exit, ...outcomes], [1, 'queued', 'queued', code, 'queued', 'queued']);
    });

  const scripts: [first: string, told: number, ...script: (number | 'unknown')[]][] = [
    ['an unknown item', 202, 'unknown', 202],
    ['a token that has ended', 503, 401, 503, 202],
    ["a proxy's page", 404, 404, 403, 202],
    ['tokens that end before and after an outage', 503, 401, 503, 401, 202],
  ];
  for (const [first, told, ...script] of scripts) {
    it(`sends again, and tells why, until an event is accepted: ${first}`, async () => {
      const address = await startFake(script);
      const { status, stderr } = await run(address, [to.event(0)]);
      assert.deepEqual([status, stderr], [0, `${address}: ${told}; 1 events are sent again\n`]);
    });
  }

  it('waits as long as Retry-After says, in seconds or by a date, for a day at most', async () => {
    for (const [retryAfter, least, most, date] of [
      ['9'.repeat(12), 86_400, 108_000],
      [new Date(Date.now() + 1_000_000).toUTCString(), 900, 1_250],
      ['Sun Nov  6 08:49:37 1994', 0.1, 0.2],
      ['Sun, 06 Nov 1994 08:59:37 GMT', 600, 750, 'Sun, 06 Nov 1994 08:49:37 GMT'],
      ['soon', 0.1, 0.2],
    ] as const) {
      const printed = await runProgram(`now = 1
def sleep(seconds):
    global now
    now += seconds
    print(seconds)
time.sleep, time.monotonic = sleep, lambda: now
list(client.Publisher("${await startFake([503, 202], { 'retry-after': retryAfter, ...(date && { date }) })}", "a", "b").publish([{}]))`);
      assert.ok(Number(printed) >= least && Number(printed) <= most, printed);
    }
  });

  it('loses no event where on_retry fails, and refuses empty credentials', async () => {
    const printed = await runProgram(`for credential in [None, ""]:
    for pair in [(credential, "b"), ("a", credential)]:
        try:
            client.Publisher("http://h", *pair)
        except ValueError as error:
            print(error)
for _, result in client.Publisher("${await startFake([503, 202])}", "a", "b", lambda *_: 1 / 0).publish([{}]):
    print(result["notification"])`);
    assert.equal(printed, `${'client_id and client_secret must not be empty\n'.repeat(4)}queued\n`);
  });

  it('gives up an answer that never ends, and sends its events again', async function () {
    this.timeout(20_000);
    const service = await startReceiver();
    let dripping: NodeJS.Timeout | undefined;
    service.onHeaders = ({ url }, response) => {
      if (!url?.endsWith('/enrichments') || dripping) return;
      response.write(' ');
      dripping = setInterval(() => response.write(' '), 100);
    };
    service.answer = ({ path }) => ({
      status: path.endsWith('/enrichments') ? 202 : 200,
      body: '{"access_token":"t","results":[{"notification":"queued"}]}',
    });
    const printed = await runProgram(`import asset_update_client._http as http
http.SECONDS_OF_A_CALL = 1
for _, result in client.Publisher("${service.url}", "a", "b", lambda why, _: print(why)).publish([{}]):
    print(result["notification"])`).finally(() => clearInterval(dripping));
    assert.equal(printed, 'no answer (timed out)\nqueued\n');
  });

  it('says without a trace that nobody takes its results any more', async () => {
    const { status, stderr } = await run(await url(), to.events(3), false);
    assert.equal(status, 1);
    assert.match(stderr, /^broke off \(\[Errno 32\] Broken pipe\): .*\n$/);
  });

  it('names the lines that are no events, and publishes the others', async () => {
    const bad = [
      '{"client_token":',
      '[1]',
      '"x"',
      'null',
      '1',
      '{"segments":[NaN]}',
      '{"a":-Infinity}',
      '{"a":1e999}',
    ];
    const { status, results, stderr } = await run(await url(), [to.event(0), ...bad, '', to.event(1)]);
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
    const ran = await Promise.all(useless.map((address) => run(address, [to.event(0)])));
    for (const { status, stderr } of ran) {
      assert.deepEqual([status, stderr.split('\n').length], [1, 2], stderr);
      assert.match(stderr, /^refused: (?!.*secret)/);
    }
  });
});
