import assert from 'node:assert/strict';
import { setDisabled } from '../../src/redis/records/accounts.js';
import { Visitor } from '../console/visitor.js';
import { newCustomer, type RunningApi, startApi } from '../service.js';
import { type Cli, openCli } from './cli.js';

describe('operator: console', () => {
  let cli: Cli;
  let api: RunningApi;
  before(async () => {
    cli = await openCli();
    api = await startApi({ prefix: cli.prefix });
  });
  after(async () => {
    await api.close();
    cli.close();
  });

  it('prints a link for an account, or the account of a client, and records it', async () => {
    const customer = await newCustomer(api);
    const env = { PUBLIC_URL: api.url };
    for (const named of [customer.account_id, customer.client_id, customer.client_token]) {
      const ran = await cli.run(['console', named, '--json'], { env });
      const { url, ...rest } = JSON.parse(ran.stdout) as Record<string, string>;
      assert.deepEqual([rest.account_id, rest.access], [customer.account_id, 'full']);
      const visitor = new Visitor(api.url);
      assert.equal((await visitor.open(url ?? '')).status, 303);
      assert.match((await visitor.get('/console')).html, new RegExp(customer.client_token));
    }
    const read = await cli.run(['console', customer.client_token, '--read', '--json'], { env });
    const reader = new Visitor(api.url);
    await reader.open((JSON.parse(read.stdout) as { url: string }).url);
    assert.match((await reader.get('/console')).html, /read only/);
    const entries = (await cli.json('audit')).filter((entry: { what: string }) => entry.what === 'console');
    assert.deepEqual(
      entries.map((entry: { target: string; after: unknown }) => [entry.target, entry.after]),
      ['full', 'full', 'full', 'read'].map((access) => [customer.account_id, { access }]),
    );
    for (const secret of [read.stdout.split('#')[1]?.slice(0, 43) ?? '', reader.cookie.split('=')[1] ?? '']) {
      assert.ok(!JSON.stringify(await cli.json('audit')).includes(secret));
    }
  });

  it('ends every session and unused link of an account with --end, and records it', async () => {
    const customer = await newCustomer(api);
    const other = await newCustomer(api);
    const env = { PUBLIC_URL: api.url };
    const linkOf = async (account: string) => (await cli.run(['console', account, '--json'], { env })).stdout;
    const urlOf = async (account: string) => (JSON.parse(await linkOf(account)) as { url: string }).url;
    const [visitor, stranger] = [new Visitor(api.url), new Visitor(api.url)];
    await visitor.open(await urlOf(customer.account_id));
    await stranger.open(await urlOf(other.account_id));
    const unused = await urlOf(customer.account_id);
    const ended = await cli.run(['console', customer.client_token, '--end', '--json']);
    assert.deepEqual(JSON.parse(ended.stdout), { account_id: customer.account_id, ended: true });
    assert.equal((await visitor.get('/console')).status, 303);
    assert.equal((await new Visitor(api.url).open(unused)).status, 401);
    assert.equal((await stranger.get('/console')).status, 200);
    assert.equal((await new Visitor(api.url).open(await urlOf(customer.account_id))).status, 303);
    const entries = (await cli.json('audit')) as { what: string; target: string }[];
    assert.equal(entries.find(({ what }) => what === 'console end')?.target, customer.account_id);
  });

  it('refuses an unknown account or client, and a disabled account', async () => {
    const customer = await newCustomer(api);
    const none = await cli.run(['console', 'SITE-of-nobody']);
    assert.deepEqual(
      [none.status, none.stdout, none.stderr],
      [1, '', 'There is no account and no client SITE-of-nobody.\n'],
    );
    await setDisabled(api.deps.db, customer.account_id, true);
    const disabled = await cli.run(['console', customer.account_id]);
    assert.deepEqual([disabled.status, disabled.stderr], [1, 'The account is disabled.\n']);
  });
});
