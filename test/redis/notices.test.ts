import assert from 'node:assert/strict';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { toldAccount } from '../../src/redis/connection/keys.js';
import {
  getNoticesUrl,
  removeNoticesUrl,
  setNoticesUrl,
  settleNotice,
  takeNotice,
} from '../../src/redis/records/notices.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { signingSecrets } from '../../src/redis/records/signingSecrets.js';
import { keysMatching } from '../keysMatching.js';
import { servers, uniquePrefix } from '../servers.js';

describe('the receiver of an account’s notices', () => {
  const box = createSecretBox(undefined);
  const limits = { failingAfter: 2, leaseMs: 15_000 };
  const failed = { ok: false, status: 500, error: 'http_status' };
  let db: Db;
  let offsetMs = 0;
  let count = 0;
  let accountId: string;
  let told: string;
  let setAtMs: number;

  before(async () => {
    const log = createLogger('silent', 'test');
    const prefix = uniquePrefix();
    db = openDb({ url: servers().redisUrl, prefix, log, clockOffsetMs: () => offsetMs });
    await waitForRedis(db, 5000);
  });
  beforeEach(async () => {
    accountId = `acc_${++count}`;
    told = toldAccount(accountId);
    ({ setAtMs } = await setNoticesUrl(db, box, accountId, 'https://ops.example.com/'));
  });
  after(() => db.redis.disconnect());

  it('gets concurrent attempts while it accepts notices, and one at a time while it is failing', async () => {
    assert.equal(await takeNotice(db, told, limits), 0);
    await settleNotice(db, told, failed, setAtMs);
    assert.equal(await takeNotice(db, told, limits), 0);
    await settleNotice(db, told, failed, setAtMs);
    assert.equal(await takeNotice(db, told, limits), 0, 'the one that probes');
    const waitMs = await takeNotice(db, told, limits);
    assert.ok(waitMs > 0 && waitMs <= limits.leaseMs, String(waitMs));
    offsetMs += limits.leaseMs;
    assert.equal(await takeNotice(db, told, limits), 0, 'the one before has died, or failed');
    await settleNotice(db, told, { ok: true, status: 204 }, setAtMs);
    assert.deepEqual([await takeNotice(db, told, limits), await takeNotice(db, told, limits)], [0, 0]);
  });

  it('gets no attempt before the time of its Retry-After', async () => {
    await settleNotice(db, told, { ...failed, status: 503, retryAfterMs: 3_600_000 }, setAtMs);
    const waitMs = await takeNotice(db, told, limits);
    assert.ok(waitMs > 3_500_000 && waitMs <= 3_600_000, String(waitMs));
  });

  it('is not changed by an answer of the previous URL', async () => {
    offsetMs += 1;
    await setNoticesUrl(db, box, accountId, 'https://ops.example.com/other');
    await settleNotice(db, told, failed, setAtMs);
    assert.equal((await getNoticesUrl(db, accountId))?.lastFailureAtMs, undefined);
  });

  it('keeps its signing secret with another URL, and loses it with the URL', async () => {
    const made = await signingSecrets(db, box, told);
    assert.equal(made.length, 1);
    await setNoticesUrl(db, box, accountId, 'https://ops.example.com/other');
    assert.deepEqual(await signingSecrets(db, box, told), made);
    assert.equal(await removeNoticesUrl(db, accountId), 'https://ops.example.com/other');
    assert.deepEqual(await signingSecrets(db, box, told), []);
    assert.equal(await removeNoticesUrl(db, accountId), undefined);
    const { base } = db.client(told);
    assert.deepEqual(await keysMatching(db, `${base}*`), []);
  });
});
