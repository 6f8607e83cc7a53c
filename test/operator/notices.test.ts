import assert from 'node:assert/strict';
import { noticesClient } from '../../src/ids.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { signingSecrets } from '../../src/redis/records/secrets.js';
import { type Cli, openCli } from './cli.js';

const key = (id: string, byte: number) => ({ id, key: Buffer.alloc(32, byte) });
const setting = (...keys: { id: string; key: Buffer }[]) =>
  keys.map((one) => `${one.id}:${one.key.toString('base64')}`).join(',');

describe('operator: notices', () => {
  let cli: Cli;
  const older = createSecretBox([key('k1', 7)]);
  const url = 'http://127.0.0.1:4997/notices?key=hush';
  let accountId: string;

  before(async () => {
    cli = await openCli({ SECRETS_KEY: setting(key('k2', 8), key('k1', 7)) });
  });
  beforeEach(async () => {
    accountId = (await createAccount(cli.db, { name: 'Acme' })).account_id;
  });
  after(() => cli.close());

  it('show: prints the URL and the state of its endpoint; refuses without an account or a URL', async () => {
    assert.match((await cli.run(['notices', 'show', 'acc_none'])).stderr, /^There is no account acc_none/);
    for (const of of [accountId, 'platform'])
      assert.match((await cli.run(['notices', 'show', of])).stderr, /has no URL for notices/);
    await setNoticesUrl(cli.db, older, accountId, url);
    const shown = await cli.json('notices', 'show', accountId);
    const { url: its, state, owed, state_reason, last_error } = shown;
    assert.deepEqual([its, state, owed, state_reason, last_error], [url, 'active', 0, 'registered', null]);
    assert.deepEqual(await cli.json('registration', 'show', `notices:${accountId}`), shown);
    const platform = (await createAccount(cli.db, { name: 'The platform', platform: true })).account_id;
    await setNoticesUrl(cli.db, older, platform, url);
    const ofPlatform = await cli.json('notices', 'show', 'platform');
    assert.equal(ofPlatform.client_token, 'notices:platform');
    assert.deepEqual(await cli.json('notices', 'show', platform), ofPlatform);
  });

  it('rotate-secret: the previous secret still signs; with --now it ends; the audit has both', async () => {
    await setNoticesUrl(cli.db, older, accountId, url);
    const box = createSecretBox([key('k2', 8), key('k1', 7)]);
    const read = () => signingSecrets(cli.db, box, noticesClient(accountId));
    const [first] = await read();
    const { previous_valid_until } = await cli.json('notices', 'rotate-secret', accountId);
    assert.ok(Date.parse(previous_valid_until) > Date.now());
    assert.equal((await read())[1], first);
    assert.equal((await cli.json('notices', 'rotate-secret', accountId, '--now')).previous_valid_until, null);
    assert.equal((await read()).length, 1);
    const audit = (await cli.json('audit')) as { what: string; target: string; after: unknown }[];
    assert.deepEqual(
      audit.filter(({ target }) => target === accountId).map(({ what, after }) => ({ what, after })),
      [
        { what: 'notices rotate-secret', after: { old_ones_end: 'in 24 h' } },
        { what: 'notices rotate-secret', after: { old_ones_end: 'now' } },
      ],
    );
  });

  it('secrets reencrypt: also encrypts the secrets of notices', async () => {
    await setNoticesUrl(cli.db, older, accountId, url);
    const before = await signingSecrets(cli.db, older, noticesClient(accountId));
    assert.ok((await cli.json('secrets', 'reencrypt')).reencrypted >= 1);
    assert.deepEqual(
      await signingSecrets(cli.db, createSecretBox([key('k2', 8)]), noticesClient(accountId)),
      before,
    );
    await cli.run(['secrets', 'reencrypt']);
  });
});
