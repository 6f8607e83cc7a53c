import assert from 'node:assert/strict';
import { type UpdatePage, UpdatesClient } from '../../clients/node/src/client.js';
import { waitForRedis } from '../../src/redis/connection/db.js';
import { setStopped } from '../../src/redis/records/accounts.js';
import { until } from '../receiver.js';
import { usePublishedTo } from './service.js';

type Options = Partial<ConstructorParameters<typeof UpdatesClient>[0]>;

describe('clients/node: updates', () => {
  const to = usePublishedTo();
  let published: number;
  beforeEach(() => {
    published = 0;
  });

  function open(options: Options = {}): UpdatesClient {
    const { client_id: clientId, client_secret: clientSecret } = to.account;
    return new UpdatesClient({ url: to.api.url, clientId, clientSecret, ...options });
  }
  const asked = (more: Partial<Parameters<UpdatesClient['updates']>[0]> = {}) => ({
    clientToken: to.account.client_token,
    pauseMs: 10,
    ...more,
  });

  async function publish(count: number): Promise<void> {
    for (let i = 0; i < count; i++)
      await to.api.publish({ client: to.account.client_token, asset: `vid-${published++}` });
  }
  const assetsOf = (pages: readonly UpdatePage[]) =>
    pages.flatMap(({ updates }) => updates.map(({ platform_id }) => platform_id));
  const assets = (from: number, until: number) =>
    Array.from({ length: until - from }, (_, i) => `vid-${from + i}`);

  it('yields page after page, waits for new updates, and continues from the kept cursor', async () => {
    await publish(25);
    const pages: UpdatePage[] = [];
    for await (const page of open().updates(asked({ limit: 10 }))) {
      pages.push(page);
      if (pages.length === 3) await publish(5);
      if (pages.length === 4) break;
    }
    assert.deepEqual(assetsOf(pages), assets(0, 30));
    const sizes = pages.map(({ updates }) => updates.length);
    assert.deepEqual(sizes, [10, 10, 5, 5]);
    for await (const page of open().updates(asked({ cursor: pages[1]?.next_cursor }))) {
      assert.deepEqual(assetsOf([page]), assets(20, 30));
      break;
    }
  });

  it('names a client token that is not set, which would be sent as the word undefined, and a pause that would be none', async () => {
    for (const clientToken of [undefined as never, ''])
      await assert.rejects(open().updates(asked({ clientToken })).next(), /^RangeError: clientToken must/);
    for (const pauseMs of [-1, Number.NaN, Number.POSITIVE_INFINITY])
      await assert.rejects(open().updates(asked({ pauseMs })).next(), /^RangeError: pauseMs must/);
  });

  const useless: [option: string, ...values: unknown[]][] = [
    ['limit', 0, 1001, Number.NaN],
    ['waitSeconds', -1, 21, Number.NaN],
    ['sinceMs', -1, Number.NaN, '2026-01-31T12:00:00Z', 8.64e15 + 1],
    ['untilMs', -1, Number.NaN, '2026-01-31T12:00:00Z', 8.64e15 + 1],
  ];
  for (const [option, ...values] of useless)
    it(`refuses a useless ${option} by name`, async () => {
      for (const value of values) {
        const given = asked({ [option]: value });
        const message = new RegExp(`^RangeError: ${option} must`);
        if (!option.endsWith('Ms')) await assert.rejects(open().updates(given).next(), message);
        if (option !== 'waitSeconds') await assert.rejects(open().reconcile([], given), message);
      }
    });

  it('gets an update while its call waits for one, with a call shorter than that wait', async () => {
    const pages = open({ timeoutMs: 1500 }).updates(asked({ waitSeconds: 20 }));
    const next = pages.next();
    await until('its call waits', () => to.api.apiDeps.updateWaits.waiting() === 1);
    await new Promise((resolve) => setTimeout(resolve, 2000));
    await publish(1);
    assert.deepEqual(assetsOf([(await next).value as UpdatePage]), ['vid-0']);
    await pages.return();
  });

  it('asks again while the service is unavailable or a proxy answers, ever later, and with a new token if the old one has ended', async () => {
    await publish(1);
    const statuses: number[] = [];
    const page = () => new Response('<h1>Maintenance</h1>');
    const later = (at: string) => Response.json({}, { status: 503, headers: { 'retry-after': at } });
    // The third answer is the service's: a token.
    const ofProxy = [page(), later('0'), undefined, page(), later('Sun, 06 Nov 1994 08:49:37 GMT')];
    const observed: typeof fetch = async (url, init) => {
      const instead = ofProxy.shift();
      if (instead) return instead;
      const response = await fetch(url, init);
      statuses.push(response.status);
      return response;
    };
    const told: string[] = [];
    const onRetry = (reason: string) => void told.push(reason);
    const pages = open({ fetch: observed, onRetry }).updates(asked());
    const beganAt = performance.now();
    assert.deepEqual(assetsOf([(await pages.next()).value as UpdatePage]), ['vid-0']);
    assert.ok(performance.now() - beganAt > 100 + 200 + 400 + 800);
    assert.match(told.join(), /200 without access_token.*status 503.*200 without updates.*status 503/);
    for (const disabled of [true, false])
      await setStopped(to.api.db, to.account.account_id, 'disabled', disabled);
    await publish(1);
    assert.deepEqual(assetsOf([(await pages.next()).value as UpdatePage]), ['vid-1']);
    assert.ok(statuses.includes(401));
    to.redis.hang();
    const next = pages.next();
    await until('it was answered 503', () => statuses.includes(503));
    to.redis.release();
    await waitForRedis(to.api.db, 10_000);
    await publish(1);
    assert.deepEqual(assetsOf([(await next).value as UpdatePage]), ['vid-2']);
    await pages.return();
  });
});
