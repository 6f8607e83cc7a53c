import assert from 'node:assert/strict';
import { createAccount } from '../../src/redis/records/accounts.js';
import { type Cli, openCli } from './cli.js';

describe('operator: client', () => {
  let cli: Cli;
  let account: string;
  before(async () => {
    cli = await openCli();
    account = (await createAccount(cli.db, { name: 'Acme' })).account_id;
  });
  after(() => cli.close());

  it('create --account ID --name N [--token T] prints {client_token, account_id, name}', async () => {
    assert.deepEqual(
      await cli.json('client', 'create', '--account', account, '--name', 'Site', '--token', 'SITE1'),
      { client_token: 'SITE1', account_id: account, name: 'Site' },
    );
    const made = await cli.json('client', 'create', '--account', account, '--name', 'App');
    assert.match(made.client_token, /^[A-Za-z0-9_-]{1,64}$/);
  });

  it('create refuses an unknown account', async () => {
    const ran = await cli.run(['client', 'create', '--account', 'acc_nobody', '--name', 'X']);
    assert.equal(ran.status, 1);
    assert.match(ran.stderr, /no such account/i);
  });

  it('list [--account ID] shows bounds, which set T sets and removes', async () => {
    const other = (await createAccount(cli.db, { name: 'Other' })).account_id;
    const make = ['client', 'create', '--account', other, '--name', 'Bounded', '--token', 'BOUNDED'];
    await cli.json(...make);
    const set = await cli.json('client', 'set', 'BOUNDED', '--max-in-flight', '3', '--max-per-second', '7');
    assert.deepEqual(set, {
      client_token: 'BOUNDED',
      account_id: other,
      name: 'Bounded',
      max_in_flight: 3,
      max_per_second: 7,
    });
    assert.deepEqual(await cli.json('client', 'list', '--account', other), [set]);
    const back = await cli.json('client', 'set', 'BOUNDED', '--max-in-flight', 'default');
    assert.deepEqual([back.max_in_flight, back.max_per_second], [null, 7]);
    const audit = await cli.json('audit');
    const change = audit.filter((c: { what: string }) => c.what === 'client set').at(-1);
    assert.deepEqual(
      [change.before.max_in_flight, change.after.max_in_flight],
      [3, null],
      'the audit has before and after',
    );
  });

  it('delete T keeps the client token taken for good', async () => {
    const create = ['client', 'create', '--account', account, '--name', 'Gone', '--token', 'GONE'];
    await cli.json(...create);
    assert.equal((await cli.json('client', 'delete', 'GONE')).deleted, true);
    const again = await cli.run(create);
    assert.equal(again.status, 1);
    assert.match(again.stderr, /given out before/);
    const twice = await cli.run(['client', 'delete', 'GONE']);
    assert.deepEqual([twice.status, twice.stderr], [1, 'There is no client GONE.\n']);
  });
});
