import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { setStopped } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { getEndpoint } from '../../src/redis/records/endpoint.js';
import { noteNewestKey, secretsKeyFault } from '../../src/redis/records/installation.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import {
  createSigningSecret,
  previousSigningSecretMs,
  readSecrets,
  reencryptSigningSecrets,
  rotateSigningSecret,
  setRequestHeaders,
} from '../../src/redis/records/secrets.js';
import { forTest } from '../servers.js';
import { newDeliveryClient, ok } from './deliveryClient.js';

describe('secrets at rest', () => {
  const client = forTest(() => newDeliveryClient());
  const older = { id: 'k1', key: randomBytes(32) };
  const newer = { id: 'k2', key: randomBytes(32) };
  const of = 'SITE0042 signing';

  it('are of a key that is known, wherever the change to it is cut off', async () => {
    const { db } = client;
    const rotated = [newer, older];
    for (let left = 0; ; left++) {
      await noteNewestKey(db, [older]);
      await db.redis.hset(db.global.installation, 'settings', '{}');
      let n = left;
      const counted = (_: object, name: string) => {
        const command = (db.redis as unknown as Record<string, unknown>)[name];
        if (typeof command !== 'function') return command;
        return (...args: unknown[]) =>
          n-- > 0 ? command.apply(db.redis, args) : Promise.reject(new Error('cut off'));
      };
      const redis = new Proxy(db.redis, { get: counted }) as typeof db.redis;
      const done = await noteNewestKey({ ...db, redis }, rotated).then(
        () => true,
        () => false,
      );
      assert.equal(await secretsKeyFault(db, rotated), undefined, `after ${left} commands`);
      if (done) return assert.ok(left > 1);
    }
  });

  it('cannot be moved to another client, nor from a signing secret to a header', () => {
    const box = createSecretBox([older]);
    const sealed = box.seal('whsec_a', of);
    assert.equal(box.open(sealed, of), 'whsec_a');
    for (const other of ['SITE0043 signing', 'SITE0042 header:x']) {
      assert.throws(() => box.open(sealed, other), { name: 'SecretUnreadable' });
    }
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
    for (const cut of [changed, 'k1:', 'k1:AAAA', sealed.slice(0, 20)])
      assert.throws(() => createSecretBox([older]).open(cut, of), { name: 'SecretUnreadable' });
  });
});

describe('a client’s signing secrets', () => {
  const keys = [{ id: 'k1', key: randomBytes(32) }];
  const box = createSecretBox(keys);
  const client = forTest(() => newDeliveryClient());

  const create = () => createSigningSecret(client.db, box, client.clientToken);
  const inUse = async () => (await readSecrets(client.db, box, client.clientToken)).signing;
  const rotate = () => rotateSigningSecret(client.db, box, client.clientToken);
  async function rotated(): Promise<string> {
    client.pass(60_000);
    const done = await rotate();
    assert.equal(done.outcome, 'rotated');
    return done.signingSecret;
  }

  it('are the same for many concurrent callers', async () => {
    const made = await Promise.all(Array.from({ length: 20 }, create));
    assert.equal(new Set(made).size, 1);
    assert.deepEqual(await inUse(), made.slice(0, 1));
  });

  it('still sign for 24 h after a rotation, newest first', async () => {
    const [first, second, third] = [await create(), await rotated(), await rotated()];
    assert.deepEqual(await inUse(), [third, second, first]);
    client.pass(previousSigningSecretMs - 30_000);
    assert.deepEqual(await inUse(), [third, second]);
    client.pass(90_000);
    const fourth = await rotated();
    assert.deepEqual(await inUse(), [fourth, third]);
    const { signingSecrets: key } = client.db.client(client.clientToken);
    assert.equal((await client.db.redis.hkeys(key)).length, 2);
  });

  it('are those of the moment at which an attempt is taken, after each change', async () => {
    const { db, clientToken } = client;
    const newer = createSecretBox([{ id: 'k2', key: randomBytes(32) }, ...keys]);
    const changes = [
      async () => {},
      rotated,
      () => setRequestHeaders(db, box, clientToken, { 'x-api-key': 'a' }),
      () => setRequestHeaders(db, box, clientToken, {}),
      () => reencryptSigningSecrets(db, newer),
    ];
    for (const change of changes) {
      await change();
      const stored = await db.redis.hgetall(db.client(clientToken).signingSecrets);
      for (const platformId of ['vid-1', 'vid-2']) {
        const [taken] = (await client.claims([client.event({ platformId })])).taken;
        assert.ok(taken);
        assert.deepEqual(taken.secrets, stored);
        await client.settle(taken, ok);
      }
    }
  });
});

describe('the clients of a disabled account', () => {
  it('are held, also one that is created meanwhile', async () => {
    const { db, account, clientToken } = await newDeliveryClient();
    await setStopped(db, account.account_id, 'disabled', true);
    const during = await createClient(db, { accountId: account.account_id, name: 'A site' });
    const held = () =>
      Promise.all([clientToken, during.clientToken].map(async (one) => (await getEndpoint(db, one)).held));
    assert.deepEqual(await held(), [true, true]);
    await setStopped(db, account.account_id, 'disabled', false);
    assert.deepEqual(await held(), [false, false]);
  });
});
