import assert from 'node:assert/strict';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/store/db.js';
import { evalsha } from '../../src/store/evalsha.js';
import { script } from '../../src/store/script.js';
import { servers, uniquePrefix } from '../servers.js';

describe('a script’s call put together without ioredis', () => {
  let db: Db;
  before(async () => {
    db = openDb({ url: servers().redisUrl, prefix: uniquePrefix(), log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
  });
  after(() => db.redis.disconnect());

  const echo = script('return {KEYS[1], unpack(ARGV)}');

  it('keys and arguments arrive byte for byte, whatever they hold', async () => {
    await db.redis.script('LOAD', echo.source);
    const everyByte = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const key = `${db.prefix}clé-😀`;
    const args = ['', 'a\r\n$3\r\nb', 'müde é 😀 Ж', everyByte, Buffer.alloc(0), 0, -1, 1.5, 1763752000000];
    const answer = (await evalsha(db.redis, echo.sha, [key], args, null)) as Buffer[];
    const wanted = [key, ...args].map((arg) => (Buffer.isBuffer(arg) ? arg : Buffer.from(String(arg))));
    assert.deepEqual(answer, wanted);
    const texts = await evalsha(db.redis, echo.sha, [key], args.slice(0, 3), 'utf8');
    assert.deepEqual(texts, [key, ...args.slice(0, 3)]);
  });

  it('an unknown script is NOSCRIPT', async () => {
    await assert.rejects(evalsha(db.redis, '0'.repeat(40), [], [], null), /^ReplyError: NOSCRIPT/);
  });
});
