import assert from 'node:assert/strict';
import { createAccount, getAccount, rotateSecret } from '../../src/redis/records/accounts.js';
import { createClient, getClient } from '../../src/redis/records/clients.js';
import { getEndpoint, pauseEndpoint } from '../../src/redis/records/endpoint.js';
import { getRegistration, markAnswered, register } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import {
  createSigningSecret,
  rotateSigningSecret,
  signingSecrets,
} from '../../src/redis/records/signingSecrets.js';
import { compareFact, exportFacts, type Fact, importFact } from '../../src/redis/records/transfer.js';
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

  it('restore accounts, clients, registrations and secrets, as JSON lines, on empty servers', async () => {
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

  it('refuse records that exist in another form, and import nothing', async () => {
    const line = {
      type: 'client',
      client_token: 'SITE',
      fields: { account_id: 'acc_other', name: 'Another' },
      signing_secrets: {},
    };
    const fresh = { ...line, client_token: 'FRESH' };
    const ran = await to.run(['import', '-'], { input: fileOf(fresh, line) });
    assert.equal(ran.status, 1);
    assert.match(ran.stderr, /Nothing was imported\..*SITE/);
    assert.equal((await to.run(['registration', 'show', 'FRESH'])).stderr, 'There is no client FRESH.\n');
  });

  describe('leave records as they are that are created or changed during an import', () => {
    let accountId: string;
    let facts: Fact[];

    /** As the command finds them: compared, and not yet written. */
    beforeEach(async () => {
      const source = await openCli();
      const target = await openCli();
      const account = await createAccount(source.db, { name: 'Acme' });
      accountId = account.account_id;
      await createClient(source.db, { accountId, name: 'Site', clientToken: 'RACE' });
      await createSigningSecret(source.db, box, 'RACE');
      const url = 'http://127.0.0.1:4996/exported';
      await register(source.db, box, { clientToken: 'RACE', accountId, url });
      facts = [];
      for await (const fact of exportFacts(source.db)) facts.push(fact);
      into = target;
      source.close();
    });
    afterEach(() => into.close());
    let into: Cli;
    const the = (type: Fact['type']) => facts.find((fact) => fact.type === type) as Fact;

    it('a registration', async () => {
      await importFact(into.db, the('account'));
      await importFact(into.db, the('client'));
      assert.equal(await compareFact(into.db, the('registration')), 'new');
      const url = 'http://127.0.0.1:4996/meanwhile';
      await register(into.db, box, { clientToken: 'RACE', accountId, url });
      assert.equal(await importFact(into.db, the('registration')), 'different');
      assert.equal((await getRegistration(into.db, 'RACE'))?.url, url);
    });

    it('a pause of a client without a URL', async () => {
      await importFact(into.db, the('account'));
      await importFact(into.db, the('client'));
      await pauseEndpoint(into.db, 'RACE');
      assert.equal(await importFact(into.db, the('registration')), 'different');
      assert.equal(await getRegistration(into.db, 'RACE'), undefined);
    });

    it('a signing secret', async () => {
      await importFact(into.db, the('account'));
      await importFact(into.db, the('client'));
      const rotated = await rotateSigningSecret(into.db, box, 'RACE');
      assert.equal(await importFact(into.db, the('client')), 'different');
      assert.equal(rotated.outcome, 'rotated');
      assert.equal((await signingSecrets(into.db, box, 'RACE'))[0], rotated.signingSecret);
    });

    it('a client of the same name', async () => {
      const other = await createAccount(into.db, { name: 'Other' });
      await createClient(into.db, { accountId: other.account_id, name: 'Theirs', clientToken: 'RACE' });
      assert.equal(await importFact(into.db, the('client')), 'different');
      assert.equal((await getClient(into.db, 'RACE'))?.accountId, other.account_id);
    });

    it('an account’s secret', async () => {
      assert.equal(await importFact(into.db, the('account')), 'new');
      const { client_secret } = await rotateSecret(into.db, accountId, { now: true });
      assert.equal(await importFact(into.db, the('account')), 'different');
      const clientId = (await getAccount(into.db, accountId))?.clientId ?? '';
      assert.ok(await isTaken(into.db, clientId, client_secret));
    });

    it('complete records that exist in the same form', async () => {
      for (const fact of facts) assert.equal(await importFact(into.db, fact), 'new');
      for (const fact of facts) assert.equal(await importFact(into.db, fact), 'same');
    });
  });

  it('name a line that export did not write by its number and never show it', async () => {
    const ran = await to.run(['import'], { input: '\n{"type":"account","secret":"hush"}\n' });
    assert.equal(ran.status, 1);
    assert.match(ran.stderr, /Line 2/);
    assert.equal(ran.stderr.includes('hush'), false);
    assert.match((await to.run(['import', '/nowhere/at/all'])).stderr, /cannot be read/);
  });

  describe('refuse a broken file and import nothing of it', () => {
    const account = {
      type: 'account',
      account_id: 'acc_fresh',
      fields: { client_id: 'cid_fresh', name: 'F', scopes: '', secret_hash: 'ab', generation: '1' },
    };
    const client = {
      type: 'client',
      client_token: 'FRESH',
      fields: { account_id: 'acc_fresh', name: 'Fresh' },
      signing_secrets: {},
    };
    const registration = {
      type: 'registration',
      client_token: 'FRESH',
      fields: { url: 'http://127.0.0.1:4995/', generation: '1', account_id: 'acc_fresh' },
      endpoint: { generation: '1' },
    };
    const whole = fileOf(account, client, registration);
    const cases: [string, string, RegExp][] = [
      ['cut off in the middle of a line', whole.slice(0, -150), /Line \d is not JSON/],
      ['cut off between two lines', `${whole.split('\n').slice(0, 2).join('\n')}\n`, /incomplete/],
      [
        'with a line missing',
        fileOf(account, client, registration).replace(/.*"FRESH".*\n/, ''),
        /incomplete/,
      ],
      ['empty', '', /incomplete/],
      ['of a newer release', whole.replace('"layout":1', '"layout":7'), /layout 7/],
      ['with a line twice', fileOf(account, client, client), /More than once.*client FRESH/],
      ['with a client of no account', fileOf(client), /Neither the file nor this service has .*: FRESH/],
      [
        'with a registration of no client',
        fileOf(account, registration),
        /Neither the file nor this service has .*: FRESH/,
      ],
      [
        'with what is no client token',
        fileOf(account, { ...client, client_token: 'a}:b' }),
        /Line 2: client_token/,
      ],
      [
        'with a signing secret under a key that is not in SECRETS_KEY',
        fileOf(account, { ...client, signing_secrets: { current: 'k9:AAAA' } }),
        /no key for the signing secrets of: FRESH/,
      ],
    ];
    for (const [name, input, reason] of cases) {
      it(name, async () => {
        const ran = await to.run(['import'], { input });
        assert.deepEqual([ran.status, ran.stdout], [1, '']);
        assert.match(ran.stderr, /^Nothing was imported\. /);
        assert.match(ran.stderr, reason);
        assert.equal(await to.db.redis.exists(to.db.global.account('acc_fresh')), 0);
        assert.equal(await to.db.redis.sismember(to.db.global.clients, 'FRESH'), 0);
      });
    }

    it('an unfinished earlier import is completed', async () => {
      await to.db.redis.hset(to.db.global.account('acc_fresh'), account.fields);
      const ran = await to.run(['import', '--json'], { input: whole });
      assert.equal(ran.status, 0, ran.stderr);
      assert.deepEqual(JSON.parse(ran.stdout), {
        ...{ accounts: 0, clients: 1, registrations: 1, unchanged: 1 },
      });
      assert.equal(await to.db.redis.sismember(to.db.global.accounts, 'acc_fresh'), 1);
    });

    it('other signing secrets, or a pause on one side only, are another form', async () => {
      const other = { ...client, signing_secrets: { current: 'plain:whsec_other' } };
      assert.match((await to.run(['import'], { input: fileOf(other) })).stderr, /in another form: FRESH/);
      await pauseEndpoint(to.db, 'FRESH');
      assert.match(
        (await to.run(['import'], { input: fileOf(registration) })).stderr,
        /in another form: FRESH/,
      );
    });
  });
});

/** Whole, as export would have written it. */
function fileOf(...facts: unknown[]): string {
  const lines = [...facts, { type: 'end', layout: 1, lines: facts.length }];
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}
