import assert from 'node:assert/strict';
import { newAccountId, newClientToken } from '../../src/ids.js';
import { audit } from '../../src/operator/audit.js';
import type { Operator, Page } from '../../src/operator/operation.js';
import { nowOf } from '../../src/redis/connection/db.js';
import { partsOf } from '../../src/redis/connection/keys.js';
import { ignore } from '../../src/redis/connection/unavailable.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { recordCall } from '../../src/redis/records/audit.js';
import { dropOldMinutes, noteMinute } from '../../src/redis/records/auditMinutes.js';
import { createClient } from '../../src/redis/records/clients.js';
import { countEndpoints } from '../../src/redis/records/counts.js';
import { register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { connectDb, forTest, servers, uniquePrefix } from '../servers.js';

type Entry = { at: string; what: string; target: string };

describe('audit of everybody', () => {
  const db = forTest(() => connectDb(servers().redisUrl, uniquePrefix()));

  const run = async (
    page: Page,
    asked: Partial<Record<'who' | 'what' | 'of', string> & { since: number }> = {},
  ) => {
    const operator = { db: async () => db, warn: (text: string) => assert.fail(text) } as unknown as Operator;
    const { value, next, shown } = await audit.run(operator, asked, page);
    return { entries: value as Entry[], next, says: String(shown.at(-1)) };
  };
  const whole = async (limit: number, asked?: Parameters<typeof run>[1]) => {
    const pages: Entry[][] = [];
    for (let after: string | undefined = ''; after !== undefined; ) {
      const { entries, next } = await run({ limit, ...(after && { after }) }, asked);
      pages.push(entries);
      after = next;
    }
    return pages.flat();
  };

  const call = { clientToken: '', address: '127.0.0.1', tokenFingerprint: '', requestId: 'r', about: {} };
  const ids = Array.from({ length: 40 }, newAccountId);
  const tokens = Array.from({ length: 40 }, newClientToken);
  const [minuteMs, hourMs] = [60_000, 3_600_000];
  const start = Math.floor(Date.UTC(2026, 0, 15) / hourMs) * hourMs;

  /** Writes entries of all three kinds at these times, as they stand in Redis. */
  async function write(times: readonly number[]): Promise<void> {
    // No account and no client has two entries in a page: each has its own in order.
    const page = 3 * ids.length;
    for (let from = 0; from < times.length; from += page)
      await Promise.all(times.slice(from, from + page).map((at, i) => writeOne(at, from + i)));
  }

  async function writeOne(at: number, i: number): Promise<void> {
    const { accountCalls, audit: changes } = db.global;
    const [accountId, clientToken] = [ids[i % ids.length] ?? '', tokens[i % tokens.length] ?? ''];
    if (i % 3 === 0) {
      await noteMinute(db, 'account', accountId, at);
      const entry = JSON.stringify({ ...call, what: `${i}` });
      await db.redis.xadd(accountCalls(accountId), `${at}-${i}`, 'call', entry);
    } else if (i % 3 === 1) {
      await noteMinute(db, 'client', clientToken, at);
      const change = { at, from: 'active', to: 'failing', why: `${i}`, by: 'service' };
      await db.redis.lpush(db.client(clientToken).stateChanges, JSON.stringify(change));
    } else {
      const change = ['who', 'Ada', 'what', `${i}`, 'target', 'x', 'before', 'null', 'after', 'null'];
      await db.redis.xadd(changes, `${at}-${i}`, ...change);
    }
  }

  it('has each entry once and in order, page by page and from the newest on, however they lie in time', async () => {
    const shapes: Record<string, (i: number) => number> = {
      'spread over months': (i) => start + i * hourMs,
      'all within a minute': (i) => start + i,
      'many at one moment': (i) => start + Math.floor(i / 700) * hourMs,
    };
    let of = 0;
    for (const [shape, at] of Object.entries(shapes)) {
      const times = Array.from({ length: 2100 }, (_, i) => at(i) + of * 3000 * hourMs);
      of++;
      await write(times);
      const since = times[0] ?? 0;
      const expected = times.map((time) => new Date(time).toISOString());
      for (const limit of [7 * 90, 2099, 5000]) {
        const found = await whole(limit, { since });
        assert.deepEqual(
          found.map((entry) => entry.at),
          expected,
          `${shape}, ${limit} at a time`,
        );
      }
      const { entries, says } = await run({ limit: 20, isNewest: true }, { since });
      assert.deepEqual(entries.map((entry) => entry.at).reverse(), expected.slice(-20), shape);
      assert.equal(says, 'The newest 20 entries.');
    }
  });

  it('reads those of its time only: what others did before keeps nobody waiting', async () => {
    await write(Array.from({ length: 1200 }, (_, i) => start + i * minuteMs));
    const since = start + 1190 * minuteMs;
    const recent = new Set([...ids.slice(1190 % 40), ...tokens.slice(1190 % 40)]);
    // To read one of these would be an error.
    for (const [i, id] of ids.entries())
      if (!recent.has(id)) await db.redis.set(db.global.accountCalls(id), `${i}`);
    for (const token of tokens)
      if (!recent.has(token)) await db.redis.set(db.client(token).stateChanges, 'no list');
    assert.equal((await whole(1000, { since })).length, 10);
    assert.equal((await run({ limit: 10, isNewest: true })).entries.length, 0, 'of the last 7 days');
    assert.equal((await run({ limit: 10, isNewest: true }, { since })).entries.length, 10);
  });

  it('goes on in another page where a filter finds little, and says where the newest end', async () => {
    await write([start, start + 1, start + 2]);
    const many: (string | number)[] = [];
    for (let i = 0; i < 45_000; i++) {
      const minute = Math.floor(start / minuteMs) + 10 + i;
      many.push(minute, `client ${newClientToken()} ${minute}`);
    }
    const [key = ''] = partsOf(db.nodes.isCluster, db.global.auditMinutes);
    await db.redis.zadd(key, ...many);
    const first = await run({ limit: 10 }, { what: 'nothing has this name' });
    assert.deepEqual(first.entries, []);
    assert.ok(Number(first.next) > start);
    assert.deepEqual(await whole(10, { what: 'nothing has this name' }), []);
    const newest = await run({ limit: 10, isNewest: true }, { since: start });
    assert.match(newest.says, /^0 entries\. What is older than \d{4}-.*Z was not looked at\.$/);
    assert.equal((await run({ limit: 3 })).entries.length, 3, 'what is found at once is told at once');
  });

  it('has what a process did not note because it ended, once a sweep has counted; and forgets after 90 days', async () => {
    const { account_id: accountId } = await createAccount(db, { name: 'Media' });
    const { clientToken } = await createClient(db, { accountId, name: 'Site' });
    await register(db, createSecretBox(undefined), clientToken, 'https://example.org/');
    assert.deepEqual((await run({ limit: 10 })).entries, []);
    await countEndpoints(db, { broken: ignore, notice: ignore }, Date.now() - minuteMs);
    const [entry] = (await run({ limit: 10 })).entries;
    assert.deepEqual([entry?.what, entry?.target], ['registration state', clientToken]);
    await dropOldMinutes(db);
    assert.equal((await run({ limit: 10 })).entries.length, 1);
    await dropOldMinutes({ ...db, callersNow: () => Date.now() + 91 * 24 * hourMs });
    assert.deepEqual((await run({ limit: 10 })).entries, []);
    assert.equal((await run({ limit: 10 }, { of: clientToken })).entries.length, 1, 'its own keeps it');
  });

  it('has a call whose time by Redis is another than the process expects', async () => {
    const accountId = newAccountId();
    const noted = { ...call, accountId, what: 'a look', network: '127.0.0.1' };
    for (const offset of [-hourMs, hourMs])
      await recordCall({ ...db, callersNow: () => nowOf(db) + offset }, noted);
    assert.equal((await run({ limit: 10 }, { since: Date.now() - minuteMs })).entries.length, 2);
  });
});
