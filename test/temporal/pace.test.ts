import assert from 'node:assert/strict';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/store/db.js';
import { listenForPace, type Pace, tellPace } from '../../src/temporal/pace.js';
import { servers, uniquePrefix } from '../servers.js';

describe('The intake is paced by the first attempts of workers elsewhere', () => {
  const log = createLogger('silent', 'test');
  const prefix = uniquePrefix();
  const open = (): Db => openDb({ url: servers().redisUrl, prefix, log });
  let dbs: Db[];
  let pace: Pace;

  before(async () => {
    dbs = [open(), open()];
    for (const db of dbs) await waitForRedis(db, 5000);
    pace = listenForPace(dbs[0] as Db, log);
    const heard = pace.sent('a first word');
    const worker = tellPace(dbs[1] as Db);
    const telling = setInterval(() => worker.tell('a first word'), 10);
    await heard.finally(() => clearInterval(telling));
  });
  after(() => {
    pace.close();
    for (const db of dbs) db.redis.disconnect();
  });

  const isPending = async (wait: Promise<void>): Promise<boolean> =>
    (await Promise.race([wait.then(() => 'over'), new Promise((r) => setTimeout(r, 20, 'pending'))])) ===
    'pending';

  it('waits until the worker tells, for no other workflow, and once at most where nobody does', async () => {
    const worker = tellPace(dbs[1] as Db);
    const wait = pace.sent('one');
    worker.tell('another');
    assert.ok(await isPending(wait));
    worker.tell('one');
    await wait;

    await pace.sent('of a worker that is gone');
    await pace.sent('the next does not wait');
    assert.ok(!(await isPending(pace.sent('nor does this'))));

    worker.tell('a worker is back');
    let next = pace.sent('two');
    while (!(await isPending(next))) {
      await new Promise((resolve) => setImmediate(resolve));
      next = pace.sent('two');
    }
    worker.tell('two');
    await next;
  });
});
