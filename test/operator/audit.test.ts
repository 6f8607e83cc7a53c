import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import { idFromBytes } from '../../src/ids.js';
import { audit } from '../../src/operator/audit.js';
import type { Operator } from '../../src/operator/operation.js';
import { mapInPages } from '../../src/promises.js';
import { rangeTags } from '../../src/redis/connection/keys.js';
import {
  type DailyBound,
  listCalls,
  type Recording,
  recordCall,
  type SecurityCall,
} from '../../src/redis/records/audit.js';
import { noteMinute } from '../../src/redis/records/auditMinutes.js';
import { keysMatching } from '../keysMatching.js';
import { startReceiver } from '../receiver.js';
import { dbWith, forSuite, openForSuite } from '../servers.js';
import {
  type Customer,
  type Json,
  keptLog,
  newCustomer,
  newToken,
  startHarness,
  tokenFields,
} from '../service.js';
import { openCli } from './cli.js';

const fingerprint = (token: string) => createHash('sha256').update(token).digest('hex').slice(0, 12);

/** Of every account: accessToken.test.ts has its test. */
const firstToken = 'first token of the day';

describe('audit: calls of the API', () => {
  const { log, lines } = keptLog('info');
  const cli = forSuite(() => openCli());
  const receiver = forSuite(() => startReceiver());
  const h = openForSuite(() => startHarness({ KEY_PREFIX: cli.prefix }, 'api', { log }));

  const from = '127.0.0.1';
  const ofAccount = async (accountId: string): Promise<Json[]> =>
    (await cli.json('audit')).filter(
      ({ account_id, what }: Json) => account_id === accountId && what !== firstToken,
    );

  it('shows and logs each with account, client, address and token, and no secret', async () => {
    const customer = await newCustomer(h);
    const { client_token, token } = customer;
    const url = encodeURIComponent(`${receiver.url}?key=url-secret`);
    const calls = [
      ['signing secret read', 'GET', '/push_notifications/signing_secret'],
      ['registration', 'POST', `/register_push_notifications?url=${url}`],
    ] as const;
    const ids: (string | null)[] = [];
    for (const [, method, path] of calls)
      ids.push((await customer.call(method, path)).headers.get('x-request-id'));
    const entries = await ofAccount(customer.account_id);
    const expected = calls.map(([what], i) => [what, client_token, from, fingerprint(token), ids[i]]);
    const recorded = entries.map((e) => [e.what, e.target, e.address, e.token_fingerprint, e.request_id]);
    assert.deepEqual(recorded, expected);
    const { origin } = new URL(receiver.url);
    assert.deepEqual(entries[1]?.after, { url: origin, token: fingerprint(token) });
    const [asked] = await cli.json('audit', '--of', customer.account_id);
    assert.deepEqual([asked.what, Object.keys(asked.after)], [firstToken, ['client_id']]);
    const isCall = (l: Json) => l.msg === 'audited call' && l.what !== firstToken;
    const logged = lines.filter((l) => isCall(l) && l.account_id === customer.account_id);
    const said = logged.map((l) => [l.what, l.client_token, l.address, l.token_fingerprint, l.request_id]);
    assert.deepEqual(said, expected);
    for (const text of [JSON.stringify(entries), JSON.stringify(lines)]) {
      for (const secret of ['url-secret', 'whsec_', token, customer.client_secret])
        assert.ok(!text.includes(secret));
    }
  });

  it('does not record refused calls, dry runs, or calls that read no secret', async () => {
    const [customer, stranger] = [await newCustomer(h), await newCustomer(h)];
    await customer.call('GET', `/push_notifications/signing_secret?client_token=${stranger.client_token}`);
    await customer.call('POST', '/register_push_notifications?url=ftp%3A%2F%2Fno');
    await customer.call('POST', `/notifications/${idFromBytes(Buffer.alloc(16))}/redeliver`);
    await customer.call('POST', '/notifications/recover', { since: '2026-01-01', dry_run: true });
    await customer.call('GET', '/clients');
    for (let i = 0; i < 12; i++) await customer.call('POST', '/push_notifications/signing_secret');
    const whats = (await ofAccount(customer.account_id)).map(({ what }) => what);
    // There was no secret to sign along the first time; the twelfth was refused.
    assert.deepEqual(whats, Array(11).fill('secrets rotate'));
    assert.deepEqual(await ofAccount(stranger.account_id), []);
  });

  it('names what the platform did about a client among what names the client', async () => {
    const [customer, platform] = [await newCustomer(h), await newCustomer(h, ['enrichments'])];
    await platform.call('DELETE', `/assets/vid-1?client_token=${customer.client_token}`);
    const entries = await cli.json('audit', '--of', customer.client_token);
    const found = entries.map(({ what, account_id }: Json) => [what, account_id]);
    assert.deepEqual(found, [['asset forget', platform.account_id]]);
  });

  it('records a secret that one token reads repeatedly once an hour, separately for each token', async () => {
    const customer = await newCustomer(h);
    const tokens = [customer.token, await newToken(h, customer)];
    for (const token of [...tokens, ...tokens, ...tokens]) {
      customer.token = token;
      assert.equal((await customer.call('GET', '/push_notifications/signing_secret')).status, 200);
    }
    const read = (await ofAccount(customer.account_id)).map((entry) => entry.token_fingerprint);
    assert.deepEqual(read, tokens.map(fingerprint));
  });

  it('reads those of everybody for one operator after another, and those of one account meanwhile', async () => {
    const customer = await newCustomer(h);
    let [underWay, most] = [0, 0];
    const zrange = async (...args: Parameters<typeof h.db.redis.zrange>) => {
      most = Math.max(most, ++underWay);
      return await h.db.redis.zrange(...args).finally(() => underWay--);
    };
    const db = dbWith(h.db, { zrange });
    const operator = { db: async () => db } as unknown as Operator;
    const list = (of?: string) => audit.run(operator, { of }, { limit: 1, isNewest: true });
    const every = Array.from({ length: 3 }, () => list());
    const { value } = await list(customer.account_id);
    assert.equal((value as Json[]).length, 1);
    await Promise.all(every);
    assert.equal(most, h.db.nodes.isCluster ? rangeTags.length + 1 : 1, 'the parts of one index');
  });

  describe('of one account', () => {
    type Said = { what: string; token?: number; network?: number; client?: string };
    const record = (
      { account_id: accountId }: Customer,
      { what, client: clientToken = 'SITE', token = 0, network = 0 }: Said,
      security?: SecurityCall,
      once: Recording = {},
    ) => {
      const by = { address: from, network: `net-${network}`, tokenFingerprint: `token-${token}` };
      const call = { accountId, what, clientToken, ...by, requestId: 'r', about: {} };
      return recordCall(h.db, call, { ...(security && { security }), ...once });
    };
    const many = (count: number, call: (i: number) => Promise<boolean | DailyBound>) =>
      mapInPages([...Array(count).keys()], 100, call);
    const refused = (results: (boolean | DailyBound)[]) =>
      results.filter((one): one is DailyBound => typeof one === 'object');
    const countOf = async ({ account_id }: Customer, what: string) =>
      (await listCalls(h.db, [account_id])).filter((call) => call.what === what).length;
    const kept = ({ account_id }: Customer) => h.db.redis.xlen(h.db.global.accountSecurityCalls(account_id));

    it('keeps the newest 2,000 that do not bear on security, and displaces no other entry with them', async () => {
      const [loud, quiet] = [await newCustomer(h), await newCustomer(h)];
      for (const customer of [loud, quiet]) await record(customer, { what: 'a test' });
      await record(loud, { what: 'a change' }, 'change');
      await many(2500, () => record(loud, { what: 'flood' }));
      const left = await countOf(loud, 'flood');
      assert.ok(left >= 2000 && left <= 2200, `${left}`);
      assert.deepEqual([await countOf(loud, 'a change'), await countOf(quiet, 'a test')], [1, 1]);
      const { accountCalls, accountSecurityCalls } = h.db.global;
      for (const key of [accountCalls(quiet.account_id), accountSecurityCalls(loud.account_id)])
        assert.ok((await h.db.redis.pttl(key)) > 89 * 86_400_000);
      // A page of the desk reads them, every 5 s and in the process that serves the callers.
      const read: string[] = [];
      let called = 0;
      const xrange: typeof h.db.redis.xrange = (key: unknown, ...args: unknown[]) => {
        read.push(String(key));
        return h.db.redis.xrange(key as string, ...(args as [string, string]));
      };
      const call = (...args: Parameters<typeof h.db.redis.call>) => {
        called++;
        return h.db.redis.call(...args);
      };
      const db = dbWith(h.db, { xrange, call });
      const { account_id } = loud;
      for (const part of [undefined, 'SITE']) {
        const found = await listCalls(db, [account_id], undefined, part);
        assert.equal(found.filter(({ what }) => what === 'flood').length, left);
      }
      assert.ok(read.length > 5 && read.every((key) => key.includes(loud.account_id)), `${read}`);
      called = 0;
      const all = await h.db.redis.smembers(h.db.global.accounts);
      await listCalls(db, all);
      assert.ok(h.db.nodes.isCluster || called < all.length, 'several accounts are read at a time');
    });

    it('keeps each change, also a second within a minute, and refuses the 51st of a client in a day', async () => {
      const customer = await newCustomer(h);
      const set = (i: number) => record(customer, { what: 'set', token: i % 2 }, 'change');
      const changes = await many(100, set);
      assert.equal(refused(changes).length, 50);
      const [{ waitMs = 0, calls = 0 } = {}] = refused(changes);
      assert.ok(calls === 50 && waitMs > 86_000_000 && waitMs <= 86_400_000);
      assert.equal(await record(customer, { what: 'set', client: 'OTHER' }, 'change'), true);
      assert.equal(await countOf(customer, 'set'), 51);
      assert.equal(await kept(customer), 52);
    });

    it('keeps 1,000 looks of a day, then those of a further token or network, up to 2,000; then refuses further ones only', async () => {
      const customer = await newCustomer(h);
      const before = await kept(customer);
      const look = (token: number, network = 0) => record(customer, { what: 'read', token, network }, 'look');
      assert.equal(refused(await many(1500, () => look(0))).length, 0);
      assert.equal((await kept(customer)) - before, 1000);
      assert.equal(refused(await many(1200, (i) => look(0, i + 1))).length, 200);
      assert.equal((await kept(customer)) - before, 2000);
      assert.deepEqual(await Promise.all([look(0), look(0, 1)]), [true, true]);
      assert.equal(refused([await look(1)]).length, 1, 'a token that was not there');
      assert.equal(await record(customer, { what: 'a change' }, 'change'), true);
      assert.equal(await record(customer, { what: 'revoked', token: 1 }, 'credentials'), true);
      assert.equal((await kept(customer)) - before, 2002);
    });

    it('keeps no mark for credentials over the bound, and refuses none', async () => {
      const customer = await newCustomer(h);
      const once = { onceForMs: 86_400_000 };
      const call = (network: number) => record(customer, { what: 'first', network }, 'credentials', once);
      assert.equal(refused(await many(2500, call)).length, 0);
      assert.equal(await kept(customer), 2000);
      const marks = await keysMatching(h.db, h.db.global.accountCallMark(customer.account_id, '*'));
      assert.ok(marks.length <= 4010, `${marks.length}`);
      assert.deepEqual([await call(7), await call(2400)], [false, true]);
    });
  });

  it('logs failed token calls with client id and address, and never shows a malformed client id', async () => {
    const customer = await newCustomer(h);
    const post = (fields: Record<string, string>, more: [string, string][] = []) => {
      const all = Object.entries({ ...tokenFields(customer), ...fields });
      const body = new URLSearchParams([...all, ...more]);
      return fetch(`${h.url}/oauth/access_token`, { method: 'POST', body });
    };
    lines.length = 0;
    await post({});
    await post({ client_secret: 'wrong-secret' });
    await post({ scope: 'more' });
    await post({ grant_type: '' });
    await post({ client_id: customer.client_secret });
    await post({}, [['scope', 'twice']]);
    const logged = lines.filter((line) => line.msg === 'a token call was refused');
    const refused = logged.map((one) => [one.client_id, one.address, one.error, one.status]);
    assert.deepEqual(refused, [
      [customer.client_id, from, 'invalid_client', 401],
      [customer.client_id, from, 'invalid_scope', 400],
      [customer.client_id, from, 'invalid_request', 400],
      ['malformed', from, 'invalid_client', 401],
      ['malformed', from, 'invalid_request', 400],
    ]);
    assert.ok(!JSON.stringify(lines).includes('wrong-secret'));
    assert.ok(!JSON.stringify(lines).includes(customer.client_secret));
  });
});

it('audit: what names one account or client reads no changes of state of others', async () => {
  const cli = await openCli();
  const { account_id } = await cli.json('account', 'create', '--name', 'Media');
  const [own, other] = await Promise.all(
    ['Own', 'Other'].map((name) => cli.json('client', 'create', '--account', account_id, '--name', name)),
  );
  await cli.db.redis.set(cli.db.client(other.client_token).stateChanges, 'no list');
  await noteMinute(cli.db, 'client', other.client_token, Date.now());
  const warned = async (...args: string[]) =>
    /changes of state of/.test((await cli.run(['audit', ...args])).stderr);
  assert.equal(await warned(), true);
  assert.equal(await warned('--of', other.client_token), true);
  for (const of of [account_id, own.client_token]) assert.equal(await warned('--of', of), false);
});

describe('audit: the name of an operator', () => {
  const cli = forSuite(() => openCli());

  const login = userInfo().username;
  const container = `container ${hostname()}`;

  async function recordedAs(args: string[], env: NodeJS.ProcessEnv) {
    const name = JSON.stringify([args, env]);
    const { stdout, stderr } = await cli.run(['account', 'create', '--name', name, '--json', ...args], {
      env,
    });
    const [entry] = await cli.json('audit', '--of', JSON.parse(stdout).account_id);
    assert.deepEqual(await cli.json('audit', '--of', name), [entry], 'by a name with quotation marks');
    return { who: entry.who, warned: stderr };
  }

  for (const [what, args, env, who] of [
    ['OPERATOR_NAME', [], { OPERATOR_NAME: 'Ada' }, `Ada (${login})`],
    ['--as before OPERATOR_NAME', ['--as', 'Grace'], { OPERATOR_NAME: 'Ada' }, `Grace (${login})`],
    ['in a container, by name', ['--as', 'Grace'], { IN_CONTAINER: 'true' }, `Grace (${container})`],
    ['neither', [], { OPERATOR_NAME: '' }, login],
  ] as const) {
    it(`${what}: ${who}`, async () => {
      assert.deepEqual(await recordedAs([...args], env), { who, warned: '' });
    });
  }

  it('is refused before anything is done if it is not valid', async () => {
    const before = await cli.json('account', 'list');
    for (const name of ['', ' ', 'a\nb', '\u202egnp', 'unnamed', 'x'.repeat(65)])
      for (const [args, env, status] of [
        [['--as', name], {}, 2],
        [[], { OPERATOR_NAME: name || ' ' }, 1],
      ] as const) {
        const ran = await cli.run(['account', 'create', '--name', 'B', ...args], { env });
        assert.deepEqual([ran.status, ran.stdout], [status, ''], name);
      }
    assert.deepEqual(await cli.json('account', 'list'), before);
  });
});
