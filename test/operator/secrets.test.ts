import assert from 'node:assert/strict';
import { Webhook } from 'standardwebhooks';
import { noticesClient } from '../../src/ids.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { createSecretBox, type SecretBox } from '../../src/redis/records/secretBox.js';
import {
  createSigningSecret,
  previousSigningSecretsAtMost,
  readSecrets,
  rotateSigningSecret,
} from '../../src/redis/records/secrets.js';
import { startReceiver, until } from '../receiver.js';
import { forSuite, openForSuite } from '../servers.js';
import { startWithWorker } from '../service.js';
import { openCli } from './cli.js';

const older = { id: 'k1', key: Buffer.alloc(32, 1) };
const newer = { id: 'k2', key: Buffer.alloc(32, 2) };
const setting = (...keys: { id: string; key: Buffer }[]) =>
  keys.map(({ id, key }) => `${id}:${key.toString('base64')}`).join(',');

describe('operator: secrets', () => {
  const h = openForSuite(() => startWithWorker({}, { secretBox: its }));
  const cli = forSuite(() =>
    openCli({ KEY_PREFIX: h.db.prefix, TASK_QUEUE: h.taskQueue, SECRETS_KEY: setting(newer, older) }),
  );
  const receiver = forSuite(() => startReceiver());
  let box = createSecretBox(undefined);
  /** The worker's, as if it were started again with other keys. */
  const its: SecretBox = {
    seal: (secret, of) => box.seal(secret, of),
    isOutdated: (sealed) => box.isOutdated(sealed),
    open: (sealed, of) => box.open(sealed, of),
  };

  async function verifies(client: string, asset: string, ...secrets: string[]): Promise<void> {
    await h.publish({ client, asset });
    const got = await until('received', () =>
      receiver.received.find((one) => one.body.includes(`"${asset}"`)),
    );
    for (const secret of secrets) new Webhook(secret).verify(got.body, got.headers as Record<string, string>);
  }

  it('rotate SECRETS_KEY without a notification that the receiver cannot verify', async () => {
    const client = await h.newClient(receiver.url);
    await h.db.redis.del(h.db.client(client).signingSecrets);
    box = createSecretBox([older]);
    const previous = await createSigningSecret(h.db, box, client);
    const rotated = await rotateSigningSecret(h.db, box, client);
    assert.equal(rotated.outcome, 'rotated');
    const { signingSecret } = rotated;
    const sealed = () => h.db.redis.hvals(h.db.client(client).signingSecrets);
    const both = [signingSecret, previous];

    await verifies(client, 'under-the-old-key', ...both);
    box = createSecretBox([newer, older]);
    await verifies(client, 'with-both', ...both);
    const bare = await h.newClient(receiver.url);
    assert.deepEqual(await cli.json('secrets', 'reencrypt'), { key_id: 'k2', reencrypted: 3, unchanged: 0 });
    assert.ok((await sealed()).every((one) => one.startsWith('k2:')));
    assert.deepEqual(await cli.json('secrets', 'reencrypt'), { key_id: 'k2', reencrypted: 0, unchanged: 3 });
    box = createSecretBox([newer]);
    await verifies(client, 'without-the-old-key', ...both);
    await verifies(bare, 'was-plain', await createSigningSecret(h.db, box, bare));
  });

  it('send nothing unsigned where a client has lost its secret, and go on once there is another', async () => {
    const client = await h.newClient(receiver.url);
    await h.db.redis.del(h.db.client(client).signingSecrets);
    const { id } = await h.publish({ client, asset: 'unsigned' });
    await until('the attempt waits', async () => (await h.endpoint(client)).nextAttemptAt);
    assert.deepEqual(receiver.idsOf('unsigned'), []);
    assert.match((await cli.run(['secrets', 'rotate', client])).stdout, /There was no earlier one\.$/m);
    await h.delivered(client, id);
    const [got] = receiver.received.filter((one) => one.body.includes('"unsigned"'));
    const { signing } = await readSecrets(h.db, createSecretBox([newer]), client);
    new Webhook(signing[0] ?? '').verify(got?.body ?? '', got?.headers as Record<string, string>);
  });

  it('name the client of a secret whose key is missing, and encrypt the others', async () => {
    const lost = await h.newClient();
    await createSigningSecret(h.db, createSecretBox([{ id: 'k0', key: Buffer.alloc(32) }]), lost);
    const kept = await h.newClient();
    await createSigningSecret(h.db, createSecretBox([older]), kept);
    const says = new RegExp(`no key for the secrets of: ${lost}\\.\n`);
    assert.match(await cli.refused('secrets', 'reencrypt'), says);
    assert.match(String(await h.db.redis.hget(h.db.client(kept).signingSecrets, 'current')), /^k2:/);
  });

  for (const whose of ['client', 'notices'])
    it(`rotate T makes a new one; the old ones also sign for 24 h, until there are ten, and with --now every earlier one ends (${whose})`, async () => {
      const { account_id } = await createAccount(h.db, { name: 'Acme' });
      const client = whose === 'notices' ? noticesClient(account_id) : await h.newClient();
      const before = createSecretBox([older]);
      if (whose === 'notices') await setNoticesUrl(h.db, before, account_id, 'http://127.0.0.1:4997/');
      await h.db.redis.del(h.db.client(client).signingSecrets);
      const first = await createSigningSecret(h.db, before, client);
      assert.ok((await cli.json('secrets', 'rotate', client)).previous_valid_until);
      // Another client's secret has no key.
      await cli.run(['secrets', 'reencrypt']);
      const read = async () => (await readSecrets(h.db, createSecretBox([newer]), client)).signing;
      const secrets = await read();
      assert.deepEqual([secrets.length, secrets[1]], [2, first]);
      for (let i = 1; i < previousSigningSecretsAtMost; i++)
        await rotateSigningSecret(h.db, createSecretBox([newer]), client);
      const refused = await cli.refused('secrets', 'rotate', client);
      assert.match(refused, /Ten earlier signing secrets .* With --now all of them end immediately/);
      const { stdout } = await cli.run(['secrets', 'rotate', client, '--now']);
      const call = whose === 'notices' ? 'notices' : 'push_notifications';
      assert.match(stdout, new RegExp(`GET /${call}/signing_secret\\. Every earlier one has ended`));
      const [only = '', ...more] = await read();
      assert.deepEqual(more, []);
      assert.equal(secrets.includes(only) || stdout.includes(only), false);
      const audit: { what: string; after: unknown }[] = await cli.json('audit', '--of', client);
      const rotations = audit.filter(({ what }) => what === 'secrets rotate').map(({ after }) => after);
      assert.deepEqual(rotations, [{ old_ones_end: 'in 24 h' }, { old_ones_end: 'now' }]);
    });

  it('are refused without SECRETS_KEY', async () => {
    const ran = await cli.run(['secrets', 'reencrypt'], { env: { SECRETS_KEY: '' } });
    assert.equal(ran.status, 1);
    assert.match(ran.stderr, /SECRETS_KEY is not set/);
  });
});
