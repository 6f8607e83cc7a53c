/** What has failed comes back, the feed can be followed, and a quiet period ends in time, whatever is killed meanwhile. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { readCounts } from '../../src/redis/records/counts.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { startReceiver, until } from '../receiver.js';
import { openForSuite } from '../servers.js';
import { callApi } from '../service.js';
import { form } from './form.js';
import { publishAll, setScene } from './scene.js';

const { failedAssets, newerAssets, feedSeconds, readerPauseMs, quietSeconds, lateMs } = form.reach;
const patientMs = 180_000;
const days = 86_400_000;
const perCall = 100;

interface Page {
  updates: { platform_id: string }[];
  has_more: boolean;
  next_cursor: string;
}

describe('out of reach', function () {
  this.timeout(600_000);
  const scene = openForSuite(() => setScene({ clients: 3 }));

  const call = (method: string, path: string, body?: object) =>
    callApi(scene.cast.publisherToken, method, scene.system.apiUrl + path, body);

  /** Publishes new events of assets `<name>-0`, `<name>-1`, ... @returns their notifications */
  async function publish(clientToken: string, name: string, count: number): Promise<string[]> {
    const ids: string[] = [];
    for (let from = 0; from < count; from += perCall) {
      const events = Array.from({ length: Math.min(perCall, count - from) }, (_, i) => ({
        client_token: clientToken,
        platform_id: `${name}-${from + i}`,
        segments: [`segment-${Math.random()}`],
      }));
      let answer = await publishAll(scene, events);
      for (; answer.status === 503; answer = await publishAll(scene, events)) await pause(500);
      assert.equal(answer.status, 202);
      ids.push(...answer.results.map(({ notification_id }) => String(notification_id)));
    }
    return ids;
  }

  /** Kills the worker and starts another one. */
  async function replaceWorker(): Promise<void> {
    await scene.system.kill('worker');
    await scene.system.start('worker');
  }

  it(`tells once of ${failedAssets} failed assets, and recovers exactly these`, async () => {
    const { db, cast, system } = scene;
    const [clientToken = ''] = cast.clientTokens;
    const told = await startReceiver();
    await setNoticesUrl(db, createSecretBox(undefined), cast.publisher.account_id, told.url);
    const failed = () => db.redis.hlen(db.client(clientToken).failed);
    await setPaused(db, clientToken, true);
    const lost = await publish(clientToken, 'lost', failedAssets);
    const { owedSince } = db.client(clientToken);
    const assets = await db.redis.zrange(owedSince, 0, '-1');
    await db.redis.zadd(owedSince, 'XX', ...assets.flatMap((asset) => [Date.now() - 31 * days, asset]));
    // Any call that wakes catch-up.
    await call('POST', `/push_notifications/resume?client_token=${clientToken}`);
    await until('some have failed', async () => (await failed()) > 0, patientMs);
    await replaceWorker();
    await until('all have failed', async () => (await failed()) === failedAssets, patientMs);
    await setPaused(db, clientToken, false);
    const newer = await publish(clientToken, 'newer', newerAssets);
    const notice = await until(
      'the notice',
      async () => {
        // The next sweep looks at all clients, not only the first of a minute.
        await db.redis.hdel(db.global.counts, 'endpoints');
        await pause(500);
        return told.received[0];
      },
      patientMs,
    );
    const { event, count } = JSON.parse(notice.body) as Record<string, unknown>;
    assert.deepEqual([event, count], ['notifications.failed', failedAssets]);
    await until(
      'the metric',
      async () => (await readCounts(db)).endpoints?.failedAssets === failedAssets,
      patientMs,
    );
    let recovered = 0;
    for (let more = 1; more > 0; ) {
      const path = `/notifications/recover?client_token=${clientToken}`;
      const { body } = await call('POST', path, { since: '2026-01-01T00:00:00Z' });
      recovered += Number(body.count);
      more = Number(body.more);
    }
    assert.equal(recovered, failedAssets);
    const { arrivals } = system.receiver;
    await until('all arrived', () => [...lost, ...newer].every((id) => arrivals.has(id)), patientMs);
    assert.equal(await failed(), 0);
    assert.equal(told.received.length, 1);
    await told.close();
  });

  it(`lets a reader with pauses of ${readerPauseMs} ms follow a client at full speed`, async () => {
    const clientToken = scene.cast.clientTokens[1] as string;
    const endsAt = Date.now() + feedSeconds * 1000;
    let published = 0;
    let isOver = false;
    const publishing = Promise.all(
      Array.from({ length: 4 }, async () => {
        while (Date.now() < endsAt) {
          const first = published;
          published += perCall;
          await publish(clientToken, `feed-${first}`, perCall);
        }
      }),
    ).finally(() => {
      isOver = true;
    });
    const seen = new Set<string>();
    let cursor = '';
    for (let wasOver = false; !wasOver; await pause(isOver ? 0 : readerPauseMs)) {
      wasOver = isOver;
      for (let hasMore = true; hasMore; ) {
        const query = new URLSearchParams({
          client_token: clientToken,
          limit: '1000',
          ...(cursor && { cursor }),
        });
        const { status, body } = await call('GET', `/updates?${query}`);
        assert.equal(status, 200, JSON.stringify(body));
        const page = body as unknown as Page;
        for (const { platform_id } of page.updates) seen.add(platform_id);
        ({ has_more: hasMore, next_cursor: cursor } = page);
      }
    }
    await publishing;
    assert.equal(seen.size, published);
    console.log(`      ${published} updates in ${feedSeconds} s`);
  });

  it(`makes one POST of 5 events within ${quietSeconds} s, soon after the end, through a kill`, async () => {
    const clientToken = scene.cast.clientTokens[2] as string;
    const { arrivals } = scene.system.receiver;
    const path = `/push_notifications/quiet_period?client_token=${clientToken}`;
    assert.equal((await call('PUT', path, { seconds: quietSeconds })).status, 200);
    const [first = ''] = await publish(clientToken, 'quiet', 1);
    const ids = [first];
    const dueAt = Date.now() + quietSeconds * 1000;
    const { endpoint } = scene.db.client(clientToken);
    await until('catch-up waits', async () => (await scene.db.redis.hexists(endpoint, 'planned_at')) === 1);
    await replaceWorker();
    while (ids.length < 5) {
      await pause((dueAt - Date.now()) / (6 - ids.length));
      ids.push(...(await publish(clientToken, 'quiet', 1)));
    }
    const newest = ids[4] as string;
    const [arrivedAt = 0] = await until('it arrived', () => arrivals.get(newest), patientMs);
    assert.ok(arrivedAt <= dueAt + lateMs, `${arrivedAt - dueAt} ms after the end of the period`);
    assert.deepEqual(ids.flatMap((id) => arrivals.get(id) ?? []).length, 1);
    console.log(`      ${arrivedAt - dueAt} ms after the end of the period`);
  });
});
