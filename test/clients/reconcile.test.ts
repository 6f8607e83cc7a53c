import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { UpdatesClient } from '../../clients/node/src/client.js';
import { notificationRequest } from '../../src/outgoing/notification.js';
import { foreign } from '../examples/vectors.js';
import { startProgram } from '../program.js';
import { type Receiver, startReceiver } from '../receiver.js';
import { forTest } from '../servers.js';

const clients = join(import.meta.dirname, '../../clients');
const listen = join(clients, 'listen/src/main.mjs');
const [clientId, clientSecret, clientToken] = ['account', 'secret', 'SITE'];

type Update = Record<'platform_id' | 'updated_at', string> & { notification_id?: string };

/** What each of the clients finds missing, the reach that it names, and its exit status (of the library: of a program that uses it). */
type Ran = { missing: unknown[]; said: string; status: number };
type Tool = (url: string, stored: string, since?: string) => Promise<Ran>;

async function run(program: string, args: string[], stored: string, more: NodeJS.ProcessEnv): Promise<Ran> {
  const env = { PATH: process.env.PATH, CLIENT_ID: clientId, CLIENT_SECRET: clientSecret, ...more };
  const child = spawn(program, args, { env });
  let [out, said] = ['', ''];
  // The reader begins once all is printed, unless the program prints no faster than it is read.
  if (program === process.execPath) child.stdout.pause();
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
    if (said.includes(' missing,')) child.stdout.resume();
  });
  child.stdin.end(stored);
  const status = await new Promise<number>((resolve) => child.once('close', (code) => resolve(code ?? -1)));
  const lines = out.split('\n').filter((line) => line !== '');
  return { missing: lines.map((line) => JSON.parse(line)), said, status };
}

const tools: Record<string, Tool> = {
  'clients/node': async (url, stored, since) => {
    const rows = stored.split('\n').map((line) => line.split('\t') as [string, string]);
    const told: string[] = [];
    const onRetry = (reason: string) => void told.push(reason);
    const reader = new UpdatesClient({ url, clientId, clientSecret, onRetry });
    const sinceMs = since === undefined ? {} : { sinceMs: Date.parse(since) };
    try {
      const found = await reader.reconcile(rows, { clientToken, ...sinceMs });
      const { missing, compared, nothing_compared, until, complete_since } = found;
      const said = `${told} ${missing.length} of ${compared} missing, until ${until}; since ${complete_since}${nothing_compared ? ': nothing was compared' : ''}`;
      return { missing, said, status: missing.length > 0 || nothing_compared ? 1 : 0 };
    } catch (err) {
      return { missing: [], said: String(err), status: 1 };
    }
  },
  'clients/python': (url, stored, since) =>
    run(
      'python3',
      [
        '-B',
        '-m',
        'asset_update_client.reconcile',
        url,
        clientToken,
        ...(since === undefined ? [] : [since]),
      ],
      stored,
      { PYTHONPATH: join(clients, 'python/src') },
    ),
  'clients/listen': (url, stored, since) =>
    run(
      process.execPath,
      [
        ...[listen, '--updates', url, '--client', clientToken],
        ...['--reconcile', '-', '--json', ...(since === undefined ? [] : ['--since', since])],
      ],
      stored,
      { ACCESS_TOKEN: 'token' },
    ),
};

for (const [name, reconcile] of Object.entries(tools)) {
  describe(`${name}: reconcile`, () => {
    const service = forTest(() => startReceiver());
    const now = Date.now();
    const ago = (minutes: number) => new Date(now - minutes * 60_000).toISOString();
    const update = (asset: string, id: string | undefined, minutes: number): Update => ({
      platform_id: asset,
      ...(id !== undefined && { notification_id: id }),
      updated_at: ago(minutes),
    });
    const reach = { complete_since: ago(9000), delivered_until: ago(30) };
    const url = () => service.url.replace('/hook', '');

    /** Answers with these pages of updates, one after the other. */
    function serve(target: Receiver, pages: Update[][], statuses: number[] = []): void {
      target.answer = ({ path }) => {
        if (path.startsWith('/oauth')) return { status: 200, body: '{"access_token":"t","expires_in":9}' };
        const status = statuses.shift() ?? 200;
        const body = { code: 'unknown_client', msg: 'no such client' };
        if (status !== 200) return { status, body: JSON.stringify(body) };
        const page = Number(/cursor=(\d)/.exec(path)?.[1] ?? 0);
        const more = { has_more: page + 1 < pages.length, next_cursor: String(page + 1) };
        const answer = { updates: pages[page], ...more, ...(page === 0 && reach) };
        return { status: 200, body: JSON.stringify(answer) };
      };
    }

    it('names each asset whose newest update is not in the table, until what was delivered, and exits 1', async () => {
      const [lost, unsent] = [update('lost\\ö', 'msg_3', 50), update('unsent', undefined, 45)];
      serve(
        service,
        [
          [update('stored', 'msg_1', 90), update('old', 'msg_0', 80), lost],
          [unsent, update('old', 'msg_4', 40), update('new', 'msg_5', 20)],
        ],
        [503],
      );
      const table = 'stored\tmsg_1\nold\tmsg_0\nother\tmsg_9';
      const { missing, said, status } = await reconcile(url(), table);
      assert.match(said, /503.*ask/);
      assert.deepEqual(missing, [lost, unsent, update('old', 'msg_4', 40)], said);
      assert.equal(status, 1);
      assert.match(said, /3 of 4 missing, until /);
      assert.ok(said.includes(reach.complete_since));
      const since = ago(60);
      assert.equal((await reconcile(url(), table, since)).status, 1);
      assert.ok(service.received.some(({ path }) => path.includes(`since=${encodeURIComponent(since)}`)));
    });

    it('names each of 20,000 also where its reader begins late', async () => {
      const pages = Array.from({ length: 2 }, (_, page) =>
        Array.from({ length: 10_000 }, (_, n) => update(`vid-${page}-${n}`, 'msg_1', 90)),
      );
      serve(service, pages);
      const { missing, status } = await reconcile(url(), '\t');
      assert.deepEqual([missing.length, status], [20_000, 1]);
    });

    it('exits 0 if nothing is missing', async () => {
      serve(service, [[update('a', 'msg_1', 90)], [update('b', 'msg_2', 31)]]);
      const { missing, said, status } = await reconcile(url(), 'a\tmsg_1\nb\tmsg_2\n'.trimEnd());
      assert.deepEqual([missing, status], [[], 0], said);
      assert.match(said, /0 of 2 missing/);
    });

    it('exits 1 and says so if nothing was delivered since the time that is compared', async () => {
      serve(service, [[update('a', 'msg_1', 10)]]);
      const { said, status } = await reconcile(url(), 'a\tmsg_1', ago(20));
      assert.match(said, /0 of 0 missing/);
      assert.match(said, /nothing was compared/i);
      assert.equal(status, 1);
    });

    if (name !== 'clients/node')
      it('refuses a table with a line without a tab', async () => {
        serve(service, [[update('a', 'msg_1', 90)]]);
        const { said, status } = await reconcile(url(), 'a\tmsg_1\nb msg_2\n');
        assert.match(said, /line 2 has no tab/);
        assert.ok(status > 0);
      });

    it('exits 1 and says why if the service refuses', async () => {
      serve(service, [], [404]);
      const { said, status } = await reconcile(url(), 'a\tmsg_1');
      assert.equal(status, 1);
      assert.match(said, /no such client/);
    });
  });
}

describe('clients/python', () => {
  const env = { PYTHONPATH: join(clients, 'python/src') };

  it('compares no update of after the time at which reading the table began', async () => {
    const service = await startReceiver();
    const reach = { has_more: false, next_cursor: 'c', delivered_until: '2999-01-01T00:00:00Z' };
    service.answer = () => ({
      status: 200,
      body: JSON.stringify({ access_token: 't', updates: [], ...reach }),
    });
    const program = `import asset_update_client as client
from datetime import datetime, timedelta, timezone
def rows():
    global began
    began = datetime.now(timezone.utc)
    while datetime.now(timezone.utc) < began + timedelta(milliseconds=2):
        pass
    yield from ()
until = client.Updates("${service.url}", "a", "b").reconcile("SITE", rows())["until"]
print(str(datetime.fromisoformat(until) + timedelta(minutes=5) <= began).lower())`;
    const { missing, said } = await run('python3', ['-B', '-c', program], '', env);
    assert.deepEqual(missing, [true], said);
  });

  it('exits 2 for wrong usage', async () => {
    const ran = await run('python3', ['-B', '-m', 'asset_update_client.reconcile'], '', env);
    assert.equal(ran.status, 2);
    assert.match(ran.said, /^CLIENT_ID=/);
  });
});

describe('clients/listen', () => {
  it('posts with the headers of a notification, and the time of its update', async () => {
    const service = await startReceiver();
    service.answer = ({ path }) =>
      path.startsWith('/hook/')
        ? { status: 200, body: '{"platform_id":"vid-9","accepted_at":"2026-01-31T12:00:00.123Z"}' }
        : 204;
    const env = { ACCESS_TOKEN: 'token', SIGNING_SECRETS: foreign };
    const forward = ['--forward', service.url.replace('/hook', '/to'), '--replay', 'msg_1'];
    const args = [listen, '--updates', service.url, '--client', clientToken, ...forward];
    assert.equal(await startProgram(process.execPath, args, { env }).ended, 0);
    const { headers = {}, body } = service.received[1] ?? {};
    const updatedAt = String(Date.parse('2026-01-31T12:00:00.123Z'));
    const notification = { notificationId: 'msg_1', clientToken, platformId: 'vid-9', updatedAt };
    const now = Number(headers['webhook-timestamp']) * 1000;
    const expected = notificationRequest(notification, [foreign], now);
    const agent = { 'user-agent': 'asset-update-listen' };
    assert.equal(body, expected.body);
    assert.deepEqual({ ...headers, ...expected.headers, ...agent }, headers);
  });

  it('follows from now on after one call, however many updates there were', async () => {
    const service = await startReceiver();
    service.answer = ({ path }) => {
      if (path.includes('wait=20')) return 'hang';
      const { length } = service.received;
      const more = { has_more: !path.includes('since=') && length < 3, next_cursor: String(length) };
      return { status: 200, body: JSON.stringify({ updates: [], ...more }) };
    };
    const args = [listen, '--updates', service.url, '--client', clientToken];
    const program = startProgram(process.execPath, args, { env: { ACCESS_TOKEN: 'token' } });
    await program.until('it waits', async () => service.received.at(-1)?.path.includes('wait=20'));
    assert.equal(await program.stop(), 0);
    assert.deepEqual(
      [service.received.length, program.stderr],
      [2, 'Follows the updates of SITE from now on.\n'],
    );
  });

  it('exits 1 if it is interrupted before --reconcile or --replay has come to its end', async () => {
    const silent = await startReceiver();
    silent.answer = () => 'hang';
    const follow = [listen, '--updates', silent.url, '--client', clientToken];
    for (const [asked, ...once] of [
      ['1', '--reconcile', '/dev/null'],
      ['2', '--replay', 'msg_1', '--forward', silent.url],
    ]) {
      const env = { ACCESS_TOKEN: 'token' };
      const program = startProgram(process.execPath, [...follow, ...once], { env });
      await program.until('it asks', async () => silent.received.length === Number(asked));
      assert.equal(await program.stop(), 1);
      assert.match(program.stderr, /^Interrupted: --re/);
    }
  });
});
