import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { userInfo } from 'node:os';
import { setStopped } from '../../src/redis/records/accounts.js';
import { newLink, Visitor } from '../console/visitor.js';
import { forSuite } from '../servers.js';
import { newCustomer, useShared } from '../service.js';
import { openCli } from './cli.js';

describe('operator: console', () => {
  const h = useShared();
  const cli = forSuite(() => openCli({ KEY_PREFIX: h.prefix, TASK_QUEUE: h.taskQueue, PUBLIC_URL: h.url }));

  it('prints a link for an account, or the account of a client, and records it', async () => {
    const customer = await newCustomer(h);
    for (const named of [customer.account_id, customer.client_id, customer.client_token]) {
      const { url, account_id, access } = await cli.json('console', named);
      assert.deepEqual([account_id, access], [customer.account_id, 'full']);
      const visitor = new Visitor(h.url);
      assert.equal((await visitor.open(url)).status, 303);
      assert.match((await visitor.get('/console')).html, new RegExp(customer.client_token));
    }
    const read = await cli.json('console', customer.client_token, '--read');
    const reader = new Visitor(h.url);
    await reader.open(read.url);
    assert.match((await reader.get('/console')).html, /read only/);
    const entries = (await cli.json('audit', '--of', customer.account_id)).filter(
      ({ what }: { what: string }) => what === 'console',
    );
    const recorded = entries.map((entry: { target: string; after: unknown }) => [entry.target, entry.after]);
    const expected = ['full', 'full', 'full', 'read'].map((access) => [customer.account_id, { access }]);
    assert.deepEqual(recorded, expected);
    for (const secret of [read.url.split('#')[1], reader.secret])
      assert.ok(!JSON.stringify(await cli.json('audit')).includes(secret));
  });

  it('names who made a link in each entry of its session: the operator, or the token', async () => {
    const customer = await newCustomer(h);
    const { account_id, client_token, token } = customer;
    const { url } = await cli.json('console', client_token, '--as', 'Ada');
    const links = [url, await newLink(h, token)];
    for (const link of links) {
      const visitor = new Visitor(h.url);
      await visitor.open(link);
      const actions = `/console/sites/${client_token}/actions`;
      const secret = `/console/sites/${client_token}/signing_secret`;
      assert.equal((await visitor.submit(await visitor.get(actions), secret)).status, 200);
    }
    const entries: Record<string, string>[] = await cli.json('audit', '--of', account_id);
    const ofSessions = entries.filter(({ token_fingerprint: by }) => by?.startsWith('console:'));
    const fingerprint = hash('sha256', token).slice(0, 12);
    const expected = [`Ada (${userInfo().username})`, `token ${fingerprint}`].flatMap((by) =>
      ['console opened', 'signing secret read'].map((what) => [what, by]),
    );
    assert.deepEqual(
      ofSessions.map(({ what, link_by }) => [what, link_by]),
      expected,
    );
    for (const { who, link_by } of ofSessions)
      assert.equal(who, `${account_id} from 127.0.0.1, by a link of ${link_by}`);
  });

  it('ends every session and unused link of an account with --end, and records it', async () => {
    const customer = await newCustomer(h);
    const other = await newCustomer(h);
    const urlOf = async (account: string): Promise<string> => (await cli.json('console', account)).url;
    const [visitor, stranger] = [new Visitor(h.url), new Visitor(h.url)];
    await visitor.open(await urlOf(customer.account_id));
    await stranger.open(await urlOf(other.account_id));
    const unused = await urlOf(customer.account_id);
    const ended = await cli.json('console', customer.client_token, '--end');
    assert.deepEqual(ended, { account_id: customer.account_id, ended: true });
    assert.equal((await visitor.get('/console')).status, 303);
    assert.equal((await new Visitor(h.url).open(unused)).status, 401);
    assert.equal((await stranger.get('/console')).status, 200);
    assert.equal((await new Visitor(h.url).open(await urlOf(customer.account_id))).status, 303);
    const ofEnd = ['--of', customer.account_id, '--what', 'console end'];
    assert.equal((await cli.json('audit', ...ofEnd)).length, 1);
  });

  it('refuses an unknown account or client, and a disabled account', async () => {
    const customer = await newCustomer(h);
    const none = 'There is no account and no client SITE-of-nobody.\n';
    assert.equal(await cli.refused('console', 'SITE-of-nobody'), none);
    await setStopped(h.db, customer.account_id, 'disabled', true);
    assert.equal(await cli.refused('console', customer.account_id), 'The account is disabled.\n');
  });
});
