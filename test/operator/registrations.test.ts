import assert from 'node:assert/strict';
import type { ClientToken } from '../../src/ids.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { markAnswered, register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { type Cli, openCli } from './cli.js';

const url = 'http://127.0.0.1:4999/hook?key=receivers-own-secret';

describe('operator: registration', () => {
  let cli: Cli;
  let accountId: string;
  before(async () => {
    cli = await openCli();
    accountId = (await createAccount(cli.db, { name: 'Acme' })).account_id;
  });
  after(() => cli.close());

  async function registered(clientToken: string): Promise<ClientToken> {
    const client = await createClient(cli.db, { accountId, name: 'Site', clientToken });
    const result = await register(cli.db, createSecretBox(undefined), { clientToken, accountId, url });
    assert.equal(result.outcome, 'stored');
    await markAnswered(cli.db, clientToken, result.nonce);
    return client.clientToken;
  }

  it('shows one with show T, and lists them with list [--state S]', async () => {
    const token = await registered('SHOWN');
    const shown = await cli.json('registration', 'show', token);
    assert.equal(shown.url, url);
    assert.equal(shown.state, 'active');
    assert.equal(shown.owed, 0);
    assert.ok(Date.parse(shown.registered_at) > 0);
    assert.deepEqual(await cli.json('registration', 'list', '--state', 'active'), [shown]);
    assert.deepEqual(await cli.json('registration', 'list', '--state', 'suspended'), []);
  });

  it('pauses with pause T, and resumes with resume T', async () => {
    const token = await registered('PAUSED');
    const paused = await cli.json('registration', 'pause', token);
    assert.deepEqual([paused.previous_state, paused.state], ['active', 'paused']);
    assert.equal((await cli.json('registration', 'show', token)).state, 'paused');
    const resumed = await cli.json('registration', 'resume', token);
    assert.deepEqual([resumed.previous_state, resumed.state], ['paused', 'active']);
  });

  it('resume T says that a failing registration is probed now', async () => {
    const token = await registered('FAILING');
    await cli.db.redis.hset(cli.db.client(token).endpoint, { state: 'failing', probe_at: Date.now() });
    const { stdout } = await cli.run(['registration', 'resume', token]);
    assert.equal(
      stdout,
      `${token} is failing; owed: 0. A probe goes out now; once it succeeds, the rest follows.\n`,
    );
  });

  it('reset T prints {client_token, removed_url, owed}; then there is none to show or reset', async () => {
    const token = await registered('RESET');
    assert.deepEqual(await cli.json('registration', 'reset', token), {
      client_token: token,
      removed_url: url,
      owed: 0,
    });
    for (const command of ['show', 'reset']) {
      const ran = await cli.run(['registration', command, token]);
      assert.deepEqual([ran.status, ran.stdout, ran.stderr], [1, '', 'RESET has no URL.\n']);
    }
  });

  it('change T --url U prints {client_token, previous_url, url}; the audit keeps scheme and host', async () => {
    const token = await registered('CHANGED');
    const next = 'http://127.0.0.1:4998/other';
    assert.deepEqual(await cli.json('registration', 'change', token, '--url', next), {
      client_token: token,
      previous_url: url,
      url: next,
    });
    assert.equal((await cli.json('registration', 'show', token)).url, next);
    const audit = await cli.json('audit');
    const change = audit.find((c: { what: string }) => c.what === 'registration change');
    assert.deepEqual(change.before, { url: 'http://127.0.0.1:4999' });
    assert.deepEqual(change.after, { url: new URL(next).origin });
    assert.equal(JSON.stringify(audit).includes('receivers-own-secret'), false);
  });

  it('change T --url U refuses a URL that may not be registered, and changes nothing', async () => {
    const token = await registered('REFUSED');
    const bad = ['http://10.0.0.1/', 'ftp://example.com/', 'http://u:p@127.0.0.1:4999/', 'hook'];
    const runs = bad.map((next) => cli.run(['registration', 'change', token, '--url', next]));
    for (const ran of await Promise.all(runs)) {
      assert.equal(ran.status, 1);
      assert.match(ran.stderr, /\burl\b/);
    }
    assert.equal((await cli.json('registration', 'show', token)).url, url);
  });

  it('refuses an unknown client', async () => {
    const ran = await cli.run(['registration', 'pause', 'NOBODY']);
    assert.deepEqual([ran.status, ran.stderr], [1, 'There is no client NOBODY.\n']);
  });
});
