import assert from 'node:assert/strict';
import { toldAccount } from '../../src/redis/connection/keys.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { getNoticesUrl, setNoticesUrl, settleNotice } from '../../src/redis/records/notices.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { signingSecrets } from '../../src/redis/records/signingSecrets.js';
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

  it('show: prints the URL and the results of its receiver; refuses without an account or a URL', async () => {
    assert.match((await cli.run(['notices', 'show', 'acc_none'])).stderr, /^There is no account acc_none/);
    assert.match((await cli.run(['notices', 'show', accountId])).stderr, /has no URL for notices/);
    const { setAtMs } = await setNoticesUrl(cli.db, older, accountId, url);
    const told = toldAccount(accountId);
    await settleNotice(cli.db, told, { ok: false, status: 503, error: 'http_status' }, setAtMs);
    const shown = await cli.json('notices', 'show', accountId);
    const { set_at, last_failure_at, ...rest } = shown;
    assert.ok(Date.parse(last_failure_at) >= Date.parse(set_at));
    assert.deepEqual(rest, {
      ...{ account_id: accountId, url, last_success_at: null, last_error: 'http_status', last_status: 503 },
    });
    const text = await cli.run(['notices', 'show', accountId]);
    assert.match(text.stdout, /last error +http_status 503/);
  });

  it('rotate-secret: the previous secret still signs; with --now it ends; the audit has both', async () => {
    await setNoticesUrl(cli.db, older, accountId, url);
    const box = createSecretBox([key('k2', 8), key('k1', 7)]);
    const read = () => signingSecrets(cli.db, box, toldAccount(accountId));
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
    const before = await signingSecrets(cli.db, older, toldAccount(accountId));
    assert.ok((await cli.json('secrets', 'reencrypt')).reencrypted >= 1);
    assert.deepEqual(
      await signingSecrets(cli.db, createSecretBox([key('k2', 8)]), toldAccount(accountId)),
      before,
    );
    await cli.run(['secrets', 'reencrypt']);
  });

  it('export, import: the URL and its secrets go with the account, the results of its receiver do not', async () => {
    const from = await openCli();
    const to = await openCli();
    try {
      const { account_id } = await createAccount(from.db, { name: 'Acme' });
      const { setAtMs } = await setNoticesUrl(from.db, older, account_id, url);
      await settleNotice(from.db, toldAccount(account_id), { ok: false, error: 'timeout' }, setAtMs);
      const { stdout } = await from.run(['export']);
      const imported = await to.run(['import', '--json'], { input: stdout });
      assert.equal(imported.status, 0, imported.stderr);
      assert.deepEqual(JSON.parse(imported.stdout), {
        ...{ accounts: 1, clients: 0, registrations: 0, notices: 1, unchanged: 0 },
      });
      assert.deepEqual(await getNoticesUrl(to.db, account_id), { url, setAtMs });
      assert.deepEqual(
        await signingSecrets(to.db, older, toldAccount(account_id)),
        await signingSecrets(from.db, older, toldAccount(account_id)),
      );
      const again = JSON.parse((await to.run(['import', '--json'], { input: stdout })).stdout);
      assert.deepEqual([again.notices, again.unchanged], [0, 2]);
      await setNoticesUrl(to.db, older, account_id, 'http://127.0.0.1:4997/other');
      assert.match((await to.run(['import'], { input: stdout })).stderr, /in another form: acc_/);
    } finally {
      from.close();
      to.close();
    }
  });
});
