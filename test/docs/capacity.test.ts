import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLogger } from '../../src/log.js';
import { excerptBytes, excerptOf } from '../../src/outgoing/answer.js';
import { openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { servers, uniquePrefix } from '../servers.js';
import { constant } from './constant.js';
import { readPage, root, rowsOf, section } from './tables.js';

/**
 * The most that one notification may keep: the bounds of a record, 1 KiB for its keys and short fields, and a quarter more, as
 * allocators round sizes up.
 */
const [, attempts = 0, attemptBytes = 0] = (
  /MAX_ATTEMPTS, MAX_BYTES = (\d+), (\d+)/.exec(
    readFileSync(join(root, 'src/redis/scripts/settle.lua'), 'utf8'),
  ) ?? []
).map(Number);
const longest = { asset: '\u{1f3a5}'.repeat(256), event: 'e'.repeat(128) };
const recordBytes = 1.25 * (attemptBytes + Buffer.byteLength(longest.asset) + longest.event.length + 1024);

describe('docs/capacity.md', () => {
  it('states the worst client that the limits allow', () => {
    const worst = constant('listedAtMost') * recordBytes;
    const row = rowsOf(section(readPage('docs/capacity.md'), 'What is kept, and its bounds')).find((cells) =>
      cells.some((cell) => cell.startsWith('records of notifications')),
    );
    const said = row?.join(' ') ?? '';
    assert.match(said, new RegExp(`${attempts} attempts or ${attemptBytes / 1024} KiB`));
    assert.match(said, new RegExp(`at most ${Math.ceil(worst / 1e6)} MB of a client`));
  });

  it('counts all that a full record takes in Redis, with its place in the list', async () => {
    const prefix = uniquePrefix();
    const db = openDb({ url: servers().redisUrl, prefix, log: createLogger('silent', 'test') });
    try {
      await waitForRedis(db, 5000);
      const keys = db.client('SITE');
      const id = `msg_${'A'.repeat(22)}`;
      const now = String(Date.now());
      const record = {
        ...longest,
        accepted_at: now,
        ended_at: now,
        state: 'superseded',
        priority: 'backfill',
      };
      const others = {
        group: 'g'.repeat(64),
        by: id,
        reason: 'client_deleted',
        failures: '99',
        clock_since: now,
      };
      await db.redis.hset(keys.notification(id), {
        ...record,
        ...others,
        attempts: 'x'.repeat(attemptBytes),
      });
      const used = Number(await db.redis.call('MEMORY', 'USAGE', keys.notification(id), 'SAMPLES', 0));
      const ofList = 150;
      assert.ok(used + ofList <= recordBytes, `${used} bytes`);
    } finally {
      db.redis.disconnect();
    }
  });

  it('an excerpt has no more bytes as stored than its bound, whatever the receiver answers', () => {
    for (const byte of [0x00, 0x22, 0x5c, 0x80, 0xff, 0x41]) {
      const stored = JSON.stringify(excerptOf([Buffer.alloc(4096, byte)]));
      assert.ok(Buffer.byteLength(stored) - 2 <= excerptBytes, `${byte}: ${stored.length}`);
    }
  });
});
