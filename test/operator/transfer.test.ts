import assert from 'node:assert/strict';
import { createAccount, getAccount } from '../../src/store/accounts.js';
import { createClient } from '../../src/store/clients.js';
import { getEndpoint, pauseEndpoint } from '../../src/store/endpoint.js';
import { getRegistration, markAnswered, register } from '../../src/store/registrations.js';
import { createSecretBox } from '../../src/store/secretBox.js';
import { createSigningSecret, signingSecrets } from '../../src/store/signingSecrets.js';
import { isTaken } from '../api/credentials.js';
import { type Cli, openCli } from './cli.js';

describe('operator: export, import', () => {
  let from: Cli;
  let to: Cli;
  const box = createSecretBox([{ id: 'k1', key: Buffer.alloc(32, 7) }]);

  before(async () => {
    from = await openCli();
    to = await openCli();
  });
  after(() => {
    from.close();
    to.close();
  });

  it('accounts, clients, registrations, secrets as JSON lines: a round trip restores them on empty servers', async () => {
    const account = await createAccount(from.db, { name: 'Acme' });
    const accountId = account.account_id;
    await createClient(from.db, { accountId, name: 'Site', clientToken: 'SITE' });
    const secret = await createSigningSecret(from.db, box, 'SITE');
    const url = 'http://127.0.0.1:4996/hook';
    const result = await register(from.db, box, { clientToken: 'SITE', accountId, url });
    assert.equal(result.outcome, 'stored');
    await markAnswered(from.db, 'SITE', result.nonce);
    await pauseEndpoint(from.db, 'SITE');
    await from.json('client', 'create', '--account', accountId, '--name', 'Gone', '--token', 'GONE');
    await from.json('client', 'delete', 'GONE');

    const exported = await from.run(['export']);
    assert.equal(exported.status, 0);
    const types = exported.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).type);
    assert.deepEqual(types.slice(0, 4), ['account', 'client', 'client', 'registration'].sort());
    assert.equal(exported.stdout.includes(secret), false, 'signing secrets stay encrypted');
    assert.equal(exported.stdout.includes(account.client_secret), false);
    assert.deepEqual(
      await from.json('export'),
      exported.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    );

    const imported = await to.run(['import', '--json'], { input: exported.stdout });
    assert.equal(imported.status, 0, imported.stderr);
    assert.equal(JSON.parse(imported.stdout).accounts, 1);
    assert.ok(await isTaken(to.db, account.client_id, account.client_secret));
    assert.equal((await getAccount(to.db, account.account_id))?.name, 'Acme');
    assert.deepEqual(await signingSecrets(to.db, box, 'SITE'), [secret]);
    assert.deepEqual(await getRegistration(to.db, 'SITE'), await getRegistration(from.db, 'SITE'));
    assert.equal((await getEndpoint(to.db, 'SITE')).state, 'paused');
    const taken = await to.run([
      'client',
      'create',
      '--account',
      accountId,
      '--name',
      'X',
      '--token',
      'GONE',
    ]);
    assert.equal(taken.status, 1, 'a deleted client token is not given out again here either');
    assert.equal((await to.run(['export'])).stdout, exported.stdout);

    const again = await to.run(['import', '--json'], { input: exported.stdout });
    assert.deepEqual(JSON.parse(again.stdout).accounts, 0, 'what is there already is left alone');
    const audit = await to.json('audit');
    assert.equal(JSON.stringify(audit).includes('secret_hash'), false);
    assert.ok(
      audit.some((c: { what: string; target: string }) => c.what === 'import' && c.target === 'SITE'),
    );
  });

  it('what is there in another form is refused, and nothing is imported', async () => {
    const line = {
      type: 'client',
      client_token: 'SITE',
      fields: { account_id: 'acc_other', name: 'Another' },
      signing_secrets: {},
    };
    const fresh = { ...line, client_token: 'FRESH' };
    const input = `${JSON.stringify(fresh)}\n${JSON.stringify(line)}\n`;
    const ran = await to.run(['import', '-'], { input });
    assert.equal(ran.status, 1);
    assert.match(ran.stderr, /Nothing was imported\..*SITE/);
    assert.equal((await to.run(['registration', 'show', 'FRESH'])).stderr, 'There is no client FRESH.\n');
  });

  it('a line that export did not write is named by its number and never shown', async () => {
    const ran = await to.run(['import'], { input: '\n{"type":"account","secret":"hush"}\n' });
    assert.equal(ran.status, 1);
    assert.match(ran.stderr, /Line 2/);
    assert.equal(ran.stderr.includes('hush'), false);
    assert.match((await to.run(['import', '/nowhere/at/all'])).stderr, /cannot be read/);
  });
});
