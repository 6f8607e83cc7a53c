import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount, setDisabled } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { createSecretBox, type SecretBox } from '../../src/redis/records/secretBox.js';
import {
  createSigningSecret,
  previousSigningSecretMs,
  previousSigningSecretsAtMost,
  replaceSigningSecret,
  rotateSigningSecret,
  signingSecrets,
} from '../../src/redis/records/secrets.js';
import { servers, uniquePrefix } from '../servers.js';

describe('secrets at rest', () => {
  const older = { id: 'k1', key: randomBytes(32) };
  const newer = { id: 'k2', key: randomBytes(32) };
  const of = { clientToken: 'SITE0042', use: 'signing' } as const;

  it('cannot be moved to another client, nor from a signing secret to a header', () => {
    const box = createSecretBox([older]);
    const sealed = box.seal('whsec_a', of);
    assert.equal(box.open(sealed, of), 'whsec_a');
    for (const other of [
      { ...of, clientToken: 'SITE0043' },
      { ...of, use: 'header:x' },
    ] as const) {
      assert.throws(() => box.open(sealed, other), { name: 'SecretUnreadable' });
    }
  });

  it('are encrypted by the first key and decrypted by any', () => {
    const sealed = createSecretBox([older]).seal('whsec_a', of);
    assert.match(sealed, /^k1:/);
    assert.ok(!sealed.includes('whsec_a'));
    const both = createSecretBox([newer, older]);
    assert.equal(both.open(sealed, of), 'whsec_a');
    assert.match(both.seal('whsec_a', of), /^k2:/);
  });

  it('stay in plain text without a key, and can be read once there is one', () => {
    const sealed = createSecretBox(undefined).seal('whsec_a', of);
    assert.equal(createSecretBox([older]).open(sealed, of), 'whsec_a');
  });

  it('cannot be read without their key, with another key of the same id, or after a change', () => {
    const sealed = createSecretBox([older]).seal('whsec_a', of);
    for (const box of [
      createSecretBox(undefined),
      createSecretBox([newer]),
      createSecretBox([{ id: 'k1', key: newer.key }]),
    ]) {
      assert.throws(() => box.open(sealed, of), { name: 'SecretUnreadable' });
    }
    const changed = `${sealed.slice(0, -8)}AAAA${sealed.slice(-4)}`;
    assert.throws(() => createSecretBox([older]).open(changed, of), { name: 'SecretUnreadable' });
  });
});

describe('a client’s signing secrets', () => {
  const box = createSecretBox([{ id: 'k1', key: randomBytes(32) }]);
  let db: Db;
  before(async () => {
    db = openDb({ url: servers().redisUrl, prefix: uniquePrefix(), log: createLogger('silent', 'test') });
    await waitForRedis(db, 5000);
  });
  after(() => db.redis.disconnect());

  it('are the same for many concurrent callers', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, () => createSigningSecret(db, box, 'SITE1')));
    assert.equal(new Set(made).size, 1);
    assert.deepEqual(await signingSecrets(db, box, 'SITE1'), made.slice(0, 1));
  });

  it('still sign for 24 h after a rotation, newest first', async () => {
    const first = await createSigningSecret(db, box, 'SITE2');
    const second = await rotated(db, box, 'SITE2');
    const later = (ms: number): Db => ({ ...db, clockOffsetMs: () => ms });
    const third = await rotated(later(1000), box, 'SITE2');
    assert.deepEqual(await signingSecrets(db, box, 'SITE2'), [third, second, first]);
    const afterFirst = later(previousSigningSecretMs + 500);
    assert.deepEqual(await signingSecrets(afterFirst, box, 'SITE2'), [third, second]);
    const fourth = await rotated(later(previousSigningSecretMs + 5000), box, 'SITE2');
    assert.equal((await db.redis.hkeys(db.client('SITE2').signingSecrets)).length, 2);
    assert.deepEqual(await signingSecrets(later(previousSigningSecretMs + 5000), box, 'SITE2'), [
      fourth,
      third,
    ]);
  });

  it('cannot be rotated while ten still sign, so that none ends before its 24 h', async () => {
    const made = [await createSigningSecret(db, box, 'SITE3')];
    const later = (ms: number): Db => ({ ...db, clockOffsetMs: () => ms });
    for (let i = 1; i <= previousSigningSecretsAtMost; i++) {
      made.unshift(await rotated(later(i * 1000), box, 'SITE3'));
    }
    const refused = await rotateSigningSecret(later(20_000), box, 'SITE3');
    assert.equal(refused.outcome, 'too_many');
    assert.ok(refused.waitMs > previousSigningSecretMs - 20_000 && refused.waitMs < previousSigningSecretMs);
    assert.deepEqual(await signingSecrets(later(20_000), box, 'SITE3'), made);
    const oldestEnded = later(previousSigningSecretMs + 1500);
    const next = await rotated(oldestEnded, box, 'SITE3');
    assert.deepEqual(await signingSecrets(oldestEnded, box, 'SITE3'), [next, ...made.slice(0, -1)]);
  });

  it('can all be ended immediately by an operator', async () => {
    const before = await createSigningSecret(db, box, 'SITE4');
    await rotated(db, box, 'SITE4');
    await replaceSigningSecret(db, box, 'SITE4');
    const [only, ...more] = await signingSecrets(db, box, 'SITE4');
    assert.deepEqual(more, []);
    assert.notEqual(only, before);
  });

  async function rotated(at: Db, of: SecretBox, client: string): Promise<string> {
    const done = await rotateSigningSecret(at, of, client);
    assert.equal(done.outcome, 'rotated');
    return done.signingSecret;
  }

  it('belong to clients that are held while their account is disabled, also to one created meanwhile', async () => {
    const account = await createAccount(db, { name: 'A' });
    const wanted = { accountId: account.account_id, name: 'A site' };
    const before = await createClient(db, wanted);
    await setDisabled(db, account.account_id, true);
    const during = await createClient(db, wanted);
    for (const client of [before, during]) {
      assert.equal((await getEndpoint(db, client.clientToken)).held, true);
    }
    await setDisabled(db, account.account_id, false);
    for (const client of [before, during]) {
      assert.equal((await getEndpoint(db, client.clientToken)).held, false);
    }
  });
});
