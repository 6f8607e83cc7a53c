/**
 * The layout of the keys: what a short life writes has the shapes that layout.json has for the number in the store's mark. What is added
 * is recorded by `RECORD_LAYOUT=1 npm test -- test/redis/layout.test.ts`; what is changed needs another number (docs/releases.md).
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { openCli } from '../operator/cli.js';
import { startOwnRedis } from '../ownRedis.js';
import { beginService } from '../program.js';
import { startReceiver, until } from '../receiver.js';
import { forSuite, opened, secretsKey, uniquePrefix, useOpened } from '../servers.js';
import { newCustomer, startWithWorker } from '../service.js';

const { RECORD_LAYOUT } = process.env;
const file = join(import.meta.dirname, 'layout.json');
/** By the pattern of the key and its type: the shapes of what it holds. */
type Layout = Record<string, string[]>;
const recorded: { layout: number; shapes: Layout } = JSON.parse(readFileSync(file, 'utf8'));

/** A process writes them by the second, or rebuilds them: a release that reads them otherwise loses nothing that is owed. */
const passing =
  /^(account-index|amiss-clients|attempts-by|calls|client-index|clock|counts|disk-mark|late|need|processes|workers)\b|}:(late|attempts-by)\b/;

/** Leaves out what differs from run to run, such as numbers, ids, hashes and what is sealed. Words and separators stay. */
function shapeOf(value: Buffer | string): string {
  const text = value.toString();
  if (text.includes('\ufffd') || [...text].some((one) => one < ' ' && one !== '\n'))
    return `${value.length} bytes`;
  if (text.includes('\n')) return [...new Set(text.split('\n').map(shapeOf))].sort().join(', ');
  if (/^[[{]["[{\]}\d]/.test(text)) return shapeOfJson(JSON.parse(text));
  if (/^\D*( \D+){3}$/.test(text)) return 'sentence';
  // A name made at random may have digits alone.
  const named = text.replace(/:[\da-f]{8}$/, ':x');
  const words = named.replaceAll(/[\w+/=-]{24,}/g, 'x-').replaceAll(/\d+\.\d+(?![.\w])/g, '1');
  return words.replaceAll(/[\w%+=-]+/g, (word) =>
    /^-?\d+$/.test(word) ? '1' : /^([a-z_-]+|[LB])$/.test(word) ? word : 'x',
  );
}

function shapeOfJson(value: unknown): string {
  if (Array.isArray(value)) return `[${[...new Set(value.map(shapeOfJson))].sort().join(' | ')}]`;
  if (typeof value !== 'object' || value === null) return value === null ? 'null' : typeof value;
  const members = Object.entries(value).map(
    ([name, one]) => `${/^[A-Za-z_]+$/.test(name) ? name : 'x'}: ${shapeOfJson(one)}`,
  );
  return `{${members.sort().join(', ')}}`;
}

/** How what a key holds is read: names and values in turn. */
const readers = {
  string: async (redis: Redis, key: Buffer) => [await redis.getBuffer(key)],
  list: (redis: Redis, key: Buffer) => redis.lrangeBuffer(key, 0, -1),
  set: (redis: Redis, key: Buffer) => redis.smembersBuffer(key),
  zset: async (redis: Redis, key: Buffer) =>
    ((await redis.callBuffer('ZRANGE', key, '0', '-1', 'WITHSCORES')) as Buffer[]).flat(),
  hash: (redis: Redis, key: Buffer) => redis.callBuffer('HGETALL', key),
  stream: async (redis: Redis, key: Buffer) =>
    (await redis.xrangeBuffer(key, '-', '+')).flatMap(([, fields]) => fields),
};

async function readLayout(redis: Redis, prefix: string): Promise<Layout> {
  const found: Record<string, Set<string>> = {};
  for (const key of await redis.keysBuffer(`${prefix}*`)) {
    const name = key
      .toString('latin1')
      .replaceAll(prefix, '')
      .replace(/known:\w+$/, 'known:bucket')
      .replace(/known:\w+:[\s\S]{8}$/, 'known:bucket:slot');
    if (passing.test(name)) continue;
    const type = (await redis.type(key)) as keyof typeof readers | 'none';
    // It has expired since.
    if (type === 'none') continue;
    const values = (await readers[type](redis, key)) as Buffer[];
    const pattern = `${type} ${shapeOf(name)}`;
    const shapes = found[pattern] ?? new Set();
    found[pattern] = shapes;
    const isPaired = ['zset', 'hash', 'stream'].includes(type);
    for (let i = 0; i < values.length; i += isPaired ? 2 : 1) {
      const [one = '', value = ''] = values.slice(i, i + 2);
      const field = shapeOf(one);
      // It has the login of whoever runs this.
      shapes.add(!isPaired ? field : `${field} = ${field === 'who' ? 'x' : shapeOf(value)}`);
    }
  }
  return Object.fromEntries(Object.entries(found).map(([name, shapes]) => [name, [...shapes]]));
}

const joined = (one: Layout, other: Layout): Layout =>
  Object.fromEntries(
    Object.keys({ ...one, ...other })
      .sort()
      .map((key) => [key, [...new Set([...(one[key] ?? []), ...(other[key] ?? [])])].sort()]),
  );

describe('The layout of the keys', () => {
  const ofSuite = useOpened();
  const own = forSuite(async () => ofSuite(await startOwnRedis()));
  const redis = forSuite(() => ofSuite(new Redis(own.url), (one) => one.disconnect()));
  const env = () => ({ REDIS_URL: own.url, SECRETS_KEY: `k1:${secretsKey}` });

  /** Lives shortly. @returns the layout that the store is marked with, and what is in it */
  async function live() {
    const h = opened(await startWithWorker({ ...env(), ACCOUNT_RATE_PER_SECOND: '10000' }));
    const receiver = opened(await startReceiver());
    const cli = await openCli({ ...env(), KEY_PREFIX: h.prefix, TASK_QUEUE: h.taskQueue });
    const customer = await newCustomer(h, ['enrichments', 'push_notifications']);
    const { client_token } = customer;
    const call = async (method: string, path: string, body?: unknown) => {
      await customer.forgetSends();
      const answer = await customer.call(method, path, body);
      assert.ok(answer.status < 300, `${method} ${path}: ${answer.text}`);
      return answer.body;
    };
    const publish = async (platform_id: string, more = {}) => {
      const event = { event_id: `an-${platform_id}`, client_token, platform_id, segments: ['a'], ...more };
      return String((await call('POST', '/enrichments', event)).notification_id);
    };
    const shows = (text: string, id: string) =>
      until(text, async () => JSON.stringify(await call('GET', `/notifications/${id}`)).includes(text));
    const isTold = async (event: string) => {
      await until(event, () => receiver.received.some(({ body }) => body.includes(event)));
      await h.noneOwed('notices:platform');
    };
    const span = { since: '2026-01-01T00:00:00Z' };

    await publish('before-1');
    await customer.register(receiver.url);
    await call('PUT', '/push_notifications/headers', { headers: { 'x-one': 'secret' } });
    await call('PUT', '/notices', { url: receiver.url });
    await cli.json('registration', 'change', client_token, '--url', `${receiver.url}/2`);
    await cli.json('token', 'create', '--name', 'desk', '--role', 'look');
    await isTold('registration.changed');

    await setPaused(h.db, client_token, true);
    for (const asset of ['lost-1', 'lost-2', 'lost-3', 'removed-1']) await publish(asset);
    await call('DELETE', '/assets?platform_id=removed-1');
    h.skip(31 * 86_400_000);
    await h.wake(client_token);
    await until('all failed', async () => (await call('GET', '/push_notifications')).failed === 3);
    const failed = await readLayout(redis, h.prefix);
    await call('POST', '/notifications/recover', span);
    await publish('lost-1', { event_id: 'an-newer', segments: ['b'] });
    await setPaused(h.db, client_token, false);
    await call('POST', '/push_notifications/resume');
    await h.noneOwed(client_token);

    await call('POST', '/push_notifications/signing_secret');
    await isTold('secret.rotated');
    const asked = { url: `${receiver.url}/moved`, reason: 'we have moved' };
    await call('PUT', '/push_notifications/url_request', asked);
    await call('POST', '/console_sessions');
    await shows('delivered', await publish('delivered-1'));
    await publish('delivered-1', { event_id: 'an-again' });
    await publish('silent-1', { notify: false });
    for (const n of [0, 1]) {
      const segments = Array.from({ length: 200 }, (_, i) => `s-${n}-${i}`);
      await publish('many-1', { event_id: `an-${n}`, segments });
    }
    await h.noneOwed(client_token);
    await call('POST', '/notifications/replay', span);
    const { endpoint } = h.db.client(client_token);
    await until('the replay ends', () => redis.hexists(endpoint, 'replay_ended_at'));
    await h.noneOwed(client_token);

    receiver.answer = () => ({ status: 503, headers: { 'retry-after': '600' }, body: 'none' });
    await shows('503', await publish('retried-1'));
    await publish('retried-1', { event_id: 'an-newer', segments: ['b'] });
    await publish('backfill-1', { priority: 'backfill' });
    await call('PUT', '/push_notifications/quiet_period', { seconds: 600 });
    await publish('quiet-1');
    receiver.answer = () => 'hang';
    const other = await h.newClient(receiver.url);
    await h.publish({ client: other, asset: 'flies-1' });
    await until('it flies', () => receiver.idsOf('flies-1').length > 0);
    await h.publish({ client: other, asset: 'flies-1' });
    const mark = Number((await redis.get(h.db.global.layout))?.split(' ')[0]);
    return { layout: mark, shapes: joined(failed, await readLayout(redis, h.prefix)) };
  }

  it('is as recorded for the number that the store is marked with', async () => {
    const { layout, shapes } = await live();
    const before = layout === recorded.layout ? recorded.shapes : {};
    if (RECORD_LAYOUT !== undefined) {
      const all = { layout, shapes: joined(before, shapes) };
      return writeFileSync(file, `${JSON.stringify(all, undefined, 2)}\n`);
    }
    const added = Object.entries(shapes).flatMap(([key, all]) =>
      all.filter((one) => !before[key]?.includes(one)).map((one) => `${key}: ${one}`),
    );
    const todo = `If processes of layout ${layout} read this alike, record it, else raise the number (mark.ts) and record it.`;
    assert.deepEqual(added, [], todo);
  }).timeout(120_000);

  it('of another number is refused by processes and commands, which change nothing', async () => {
    const prefix = uniquePrefix();
    const mark = `${prefix}layout`;
    await redis.set(mark, '1 another');
    const says = /^The store has layout 1, and this release knows layout \d+: nothing was changed/;
    const service = await beginService({ ...env(), KEY_PREFIX: prefix });
    assert.equal(await service.ended, 1);
    assert.match(service.stderr, says);
    const cli = await openCli({ ...env(), KEY_PREFIX: prefix });
    assert.match(await cli.refused('client', 'list'), says);
    assert.deepEqual(await redis.keys(`${prefix}[^dn]*`), [mark], 'beside what was tried');
  });
});
