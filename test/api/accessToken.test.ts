import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { createFailureLimits } from '../../src/http/limits.js';
import { findAccessToken } from '../../src/redis/records/accessTokens.js';
import { setStopped } from '../../src/redis/records/accounts.js';
import { listCalls } from '../../src/redis/records/audit.js';
import { keysMatching } from '../keysMatching.js';
import { startProxy } from '../proxy.js';
import { within } from '../receiver.js';
import { forSuite, itWithOneRedis, opened, openForSuite, servers } from '../servers.js';
import { type Customer, newCustomer, newToken, startHarness, tokenFields } from '../service.js';
import { mintToken } from './credentials.js';
import { callWithoutEnd, statusesIn } from './rawCaller.js';

type Body = string | URLSearchParams | FormData | Uint8Array | ReadableStream;
type Case = [what: string, body: () => Body, headers?: Record<string, string>, says?: RegExp];

describe('POST /oauth/access_token', () => {
  /** Two processes of one installation, behind a proxy. */
  const h = openForSuite(() => startHarness({ TRUSTED_PROXIES: '127.0.0.0/8' }, 'api'));
  const second = openForSuite(() =>
    startHarness({ TRUSTED_PROXIES: '127.0.0.0/8', KEY_PREFIX: h.prefix }, 'api'),
  );
  const account = forSuite(() => newCustomer(h, ['push_notifications', 'reports']));

  const form = 'application/x-www-form-urlencoded';
  const post = (body: Body, headers: Record<string, string> = {}, { url } = h) =>
    fetch(`${url}/oauth/access_token`, {
      method: 'POST',
      body,
      duplex: 'half',
      headers: { ...(typeof body === 'string' && { 'content-type': form }), ...headers },
    } as RequestInit);
  const fields = (more: Record<string, string> = {}) =>
    new URLSearchParams({ ...tokenFields(account), ...more });
  const parts = (more: Record<string, string | Blob> = {}, blank = '') => {
    const all = new FormData();
    for (const [name, value] of Object.entries({ ...tokenFields(account), ...more }))
      all.set(`${blank}${name}${blank}`, value);
    return all;
  };
  const guessAs = (customer: Customer, address: string, to = h, secret = 'guess') =>
    post(
      new URLSearchParams({ ...tokenFields(customer), client_secret: secret }),
      { 'x-forwarded-for': `198.51.100.1, ${address}` },
      to,
    );

  async function assertError(answer: Response, status: number, error: string, says = /./): Promise<void> {
    const body = (await answer.json()) as Record<string, string>;
    assert.deepEqual([answer.status, body.error], [status, error]);
    assert.match(body.error_description ?? '', says);
    assert.equal(answer.headers.get('cache-control'), 'no-store');
  }

  it('answers a token, which is stored as its SHA-256 only, for a form and for multipart, and tells caches to forget it', async () => {
    for (const body of [fields(), parts(), parts({}, ' ')]) {
      const answer = await post(body);
      const { access_token: token, ...rest } = (await answer.json()) as Record<string, unknown>;
      const scope = 'push_notifications reports';
      assert.deepEqual(rest, { token_type: 'Bearer', expires_in: 3600, scope });
      const caching = ['cache-control', 'pragma'].map((name) => answer.headers.get(name));
      assert.deepEqual(caching, ['no-store', 'no-cache']);
      const hash = createHash('sha256').update(String(token)).digest('hex');
      assert.deepEqual(await findAccessToken(h.db, String(token)), {
        fingerprint: hash.slice(0, 12),
        accountId: account.account_id,
        generation: 1,
        scopes: scope.split(' '),
      });
      const key = h.db.global.accessToken(account.account_id, hash);
      assert.ok((await h.db.redis.pttl(key)) > 3_500_000);
      for (const found of [...(await keysMatching(h.db, `${h.prefix}*`)), await h.db.redis.get(key)])
        assert.ok(!found?.includes(String(token)));
    }
  });

  it('gives the subset of the scopes asked for, and ends no older token', async () => {
    const token = await newToken(h, { ...account, scopes: ['reports'] });
    assert.deepEqual((await findAccessToken(h.db, token))?.scopes, ['reports']);
    assert.ok(await findAccessToken(h.db, account.token));
  });

  const basic = (pair: string | Buffer) => `Basic ${Buffer.from(pair).toString('base64')}`;

  it('takes the credentials as Authorization: Basic, as RFC 6749 encodes them', async () => {
    const { client_id: id, client_secret: secret, ...others } = tokenFields(account);
    const ask = (pair: string, more = {}) =>
      post(new URLSearchParams({ ...others, ...more }), { authorization: basic(pair) });
    // Percent-encoded more than it need be, as some libraries do.
    const encoded = secret.replaceAll(/[-_]/g, (one) => `%${one.charCodeAt(0).toString(16)}`);
    const padded = ['\n', '\r\n', ' '].flatMap((blank) => [
      `${id}:${secret}${blank}`,
      `${blank}${id}${blank}:${blank}${secret}`,
    ]);
    for (const pair of [`${id}:${encoded}`, ...padded])
      assert.equal((await ask(pair)).status, 200, JSON.stringify(pair));
    const pair = `${id}:${secret}`;
    assert.equal((await ask(pair, { client_id: id })).status, 200);
    const wrong = await ask(`${pair}x`);
    assert.match(wrong.headers.get('www-authenticate') ?? '', /^Basic /);
    await assertError(wrong, 401, 'invalid_client');
    for (const [more, says] of [
      [{ client_id: id, client_secret: secret }, /not as both/],
      [{ client_id: `${id}x` }, /is not that of the header/],
    ] as const)
      await assertError(await ask(pair, more), 400, 'invalid_request', says);
  });

  it('says what is wrong with a header that is not Basic, and counts no guess', async () => {
    const { client_id: id, client_secret: secret } = await newCustomer(h);
    const fields = new URLSearchParams({ grant_type: 'none', scope: 'push_notifications' });
    const right = basic(`${id}:${secret}`);
    const utf16 = Buffer.from(`${id}:${secret}`, 'utf16le');
    const wrong: [RegExp, ...string[]][] = [
      [/one piece of base64/, right.replace(/.{8}$/, ' $&'), 'Basic %%%', 'Basic', 'Basic  ', 'basic a"b"'],
      [/<client_id>:<client_secret> in UTF-8/, basic(id), basic(utf16), basic(Buffer.from(utf16).swap16())],
      [/client_id/, 'Bearer abc'],
    ];
    for (const [says, ...headers] of [...wrong, ...wrong])
      for (const authorization of headers)
        await assertError(await post(fields, { authorization }), 400, 'invalid_request', says);
    assert.equal((await post(fields, { authorization: right.replace('Basic', 'BASIC ') })).status, 200);
  });

  it('takes a form that begins with a byte order mark, UTF-8, an empty Content-Encoding, an unknown parameter', async () => {
    const type = 'Application/X-WWW-Form-urlencoded; charset="UTF-8"';
    const headers = { 'content-type': type, 'content-encoding': '' };
    assert.equal((await post(`\ufeff${fields({ extra: 'ü' })}`, headers)).status, 200);
  });

  const long = 'x'.repeat(4_200);
  /** Beside what mistakes.test.ts sends to every call that takes a form. */
  const refused: Record<number, Case[]> = {
    415: [
      ['no content type', () => new Uint8Array(3)],
      ['identity', () => fields(), { 'content-encoding': 'identity' }, /Content-Encoding/],
    ],
    413: [
      ['over 4 KiB in chunks', () => new Blob([`client_id=${long}`]).stream(), { 'content-type': form }],
      ['over 4 KiB as multipart', () => parts({ client_id: long })],
    ],
    400: [
      ['a file part', () => parts({ client_secret: new Blob(['secret']) }), {}, /file/],
      ['a broken percent-encoding', () => 'client_id=%zz'],
      ...['grant_type', 'client_id', 'client_secret', 'scope'].flatMap((name): Case[] => [
        [`${name} empty`, () => fields({ [name]: '  ' }), {}, new RegExp(name)],
        [`${name} repeated`, () => `${fields()}&${name}=again`, {}, new RegExp(name)],
      ]),
    ],
  };
  for (const [status, cases] of Object.entries(refused)) {
    for (const [what, body, headers, says] of cases) {
      it(`${what}: ${status} invalid_request`, async () => {
        await assertError(await post(body(), headers), Number(status), 'invalid_request', says);
      });
    }
  }

  const wrong = { client_secret: 'wrong' };
  for (const [what, more, status, error] of [
    ['another grant_type', { grant_type: 'x', ...wrong }, 400, 'unsupported_grant_type'],
    ['another scope', { scope: 'push_notifications enrichments' }, 400, 'invalid_scope'],
    ['another scope and a wrong secret', { scope: 'enrichments', ...wrong }, 401, 'invalid_client'],
  ] as const) {
    it(`${what}: ${status} ${error}`, async () => {
      await assertError(await post(fields(more)), status, error);
    });
  }

  const oneASecond = () => startHarness({ KEY_PREFIX: h.prefix, TOKEN_RATE_PER_SECOND: '1' }, 'api');
  const slow = [openForSuite(oneASecond), openForSuite(oneASecond)] as const;

  it('gives the tokens of one second over all processes, and no more: 429 with Retry-After', async () => {
    const minted: number[] = [];
    const answers = await Promise.all(
      Array.from({ length: 12 }, async (_, i) => {
        const answer = await post(fields(), {}, slow[i % 2]);
        if (answer.status === 200) minted.push(performance.now());
        return answer;
      }),
    );
    const tooMany = answers.filter((answer) => answer.status === 429);
    assert.ok(tooMany.length > 0 && answers.every((answer) => [200, 429].includes(answer.status)));
    const seconds = ((minted.at(-1) ?? 0) - (minted[0] ?? 0)) / 1000;
    assert.ok(minted.length <= 2 + seconds, `${minted.length} in ${seconds} s`);
    assert.ok(Number(tooMany[0]?.headers.get('retry-after')) >= 1);
  });

  it('refuses further tokens without asking Redis', async () => {
    const [one] = slow;
    await within(1_000, async () => {
      const customer = await newCustomer(one);
      const mint = () => post(new URLSearchParams(tokenFields(customer)), {}, one);
      // The customer has a token of this second.
      assert.equal((await mint()).status, 429);
      await one.db.redis.del(one.db.global.tokenRate(customer.account_id));
      assert.equal((await mint()).status, 429);
    });
  });

  it('counts failures over all processes, and still serves the customer at another address, and another customer', async () => {
    const customer = await within(6_000, async () => {
      const customer = await newCustomer(h);
      const statuses: number[] = [];
      for (let i = 0; i < 14; i++)
        statuses.push((await guessAs(customer, '203.0.113.7', i % 2 ? h : second)).status);
      assert.deepEqual(statuses, [...Array(10).fill(401), ...Array(4).fill(429)]);
      assert.equal((await guessAs(customer, '203.0.113.7', h, customer.client_secret)).status, 429);
      return customer;
    });
    const right = customer.client_secret;
    assert.equal((await guessAs(customer, '203.0.113.8', h, right)).status, 200);
    const other = await newCustomer(h);
    assert.equal((await guessAs(other, '203.0.113.7', h, other.client_secret)).status, 200);
  });

  itWithOneRedis(
    'answers no guess while Redis is unavailable, and keeps refusing refused addresses, also when Redis is back',
    async () => {
      const proxy = opened(await startProxy(servers().redisUrl));
      const api = opened(await startHarness({ REDIS_URL: proxy.url }, 'api'));
      const refused = await newCustomer(api);
      const ask = (fields: Record<string, string>) => post(new URLSearchParams(fields), {}, api);
      const guess = (of: Customer) => ask({ ...tokenFields(of), client_secret: 'guess' });
      for (let i = 0; i < 10; i++) await guess(refused);
      // However slow what follows is.
      api.skip(-30_000);
      await guess(refused);
      const customer = await newCustomer(api);
      proxy.hang();
      const statuses = await Promise.all(
        Array.from({ length: 30 }, async () => (await guess(customer)).status),
      );
      assert.deepEqual(new Set(statuses), new Set([503]));
      assert.equal((await ask(tokenFields(customer))).status, 503);
      for (let i = 0; i < 3; i++) assert.equal((await guess(refused)).status, 429);
      assert.equal((await ask(tokenFields(refused))).status, 429);
      // As if the look-up had been answered, and the count of the failure was lost on its way.
      const limits = createFailureLimits(api.db);
      const count = Array.from({ length: 15 }, () => limits.count('somebody', '203.0.113.7'));
      const lost = (await Promise.allSettled(count)).filter((one) => one.status === 'rejected');
      assert.deepEqual(
        lost.map(({ reason }) => reason.status),
        Array(5).fill(429),
      );
      proxy.release();
      while ((await fetch(`${api.url}/readyz`)).status !== 200);
      assert.equal((await guess(refused)).status, 429);
      assert.equal((await ask(tokenFields(customer))).status, 200);
    },
  );

  it('counts failures of an IPv6 caller over all addresses of its /64', async () => {
    await within(6_000, async () => {
      const customer = await newCustomer(h);
      const statuses: number[] = [];
      for (let i = 0; i < 12; i++) statuses.push((await guessAs(customer, `2001:db8:0:7:${i}::1`)).status);
      assert.deepEqual(statuses, [...Array(10).fill(401), 429, 429]);
      assert.equal((await guessAs(customer, '2001:db8:0:8::1')).status, 401);
    });
  });

  it('has the first token of an account and network in a day in the audit, and no other', async () => {
    const customer = await newCustomer(h);
    const addresses = ['2001:db8::1', '2001:db8::2', '2001:db8:0:1::1', '2001:db8::1'];
    for (const [i, address] of addresses.entries())
      await guessAs(customer, address, i % 2 ? h : second, customer.client_secret);
    const found = await listCalls(h.db, [customer.account_id]);
    const audited = found.map(({ what, address }) => [what, address]);
    assert.deepEqual(
      audited,
      ['127.0.0.1', '2001:db8::1', '2001:db8:0:1::1'].map((address) => ['first token of the day', address]),
    );
  });

  it('disabling the account ends its tokens immediately, also one minted at that moment; enabling revives none, and repeated ends none', async () => {
    const customer = await newCustomer(h);
    const inThatMoment: Promise<string | undefined>[] = [];
    for (let i = 0; i < 20; i++) {
      inThatMoment.push(mintToken(h.db, customer, ['push_notifications']));
      if (i === 10)
        inThatMoment.push(setStopped(h.db, customer.account_id, 'disabled', true).then(() => undefined));
    }
    const tokens = [customer.token, ...(await Promise.all(inThatMoment))].filter((t) => t !== undefined);
    assert.ok(tokens.length > 1);
    const found = () => Promise.all(tokens.map((t) => findAccessToken(h.db, t)));
    assert.ok((await found()).every((t) => t === undefined));
    await setStopped(h.db, customer.account_id, 'disabled', false);
    assert.ok((await found()).every((t) => t === undefined));
    const token = await newToken(h, customer);
    await setStopped(h.db, customer.account_id, 'disabled', false);
    assert.ok(await findAccessToken(h.db, token));
  });

  describe('POST /oauth/revoke', () => {
    const revoke = (more: Record<string, string>) => {
      const { client_id, client_secret } = account;
      const body = new URLSearchParams({ client_id, client_secret, ...more });
      return fetch(`${h.url}/oauth/revoke`, { method: 'POST', body });
    };
    const works = async (token: string) => (await findAccessToken(h.db, token)) !== undefined;
    const entries = async () =>
      (await listCalls(h.db, [account.account_id])).filter(({ what }) => what === 'access token revoked')
        .length;

    it('ends the token immediately, and no other, and is in the audit once; it answers 200 to any other token', async () => {
      const token = await newToken(h, account);
      const answer = await revoke({ token, token_type_hint: 'access_token' });
      assert.deepEqual([answer.status, await answer.json()], [200, {}]);
      assert.equal(answer.headers.get('cache-control'), 'no-store');
      assert.deepEqual([await works(token), await works(account.token)], [false, true]);
      const ofAnother = (await newCustomer(h)).token;
      for (const other of [token, 'unknown', ofAnother])
        assert.equal((await revoke({ token: other })).status, 200);
      assert.equal(await works(ofAnother), true);
      assert.equal(await entries(), 1);
    });

    it('ends calls whose body comes later, too', async () => {
      const platform = await newCustomer(h, ['enrichments', 'push_notifications']);
      const { client_id, client_secret, client_token, token } = platform;
      const bodies = {
        '/enrichments': { client_token, platform_id: 'vid', segments: ['a'] },
        [`/notifications/replay?client_token=${client_token}`]: { since: new Date().toISOString() },
      };
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
      const ends = Object.entries(bodies).map(([path, sent]) =>
        callWithoutEnd(h.url + path, headers, JSON.stringify(sent)),
      );
      // Longer than what is found holds.
      await pause(1100);
      assert.deepEqual(await (await revoke({ token, client_id, client_secret })).json(), {});
      for (const end of ends) assert.deepEqual(statusesIn(await end()), [401]);
    });

    it('refuses as POST /oauth/access_token does: wrong credentials, a missing field', async () => {
      const { token } = account;
      await assertError(await revoke({ token, client_secret: 'wrong' }), 401, 'invalid_client');
      await assertError(await revoke({}), 400, 'invalid_request');
      assert.equal(await works(token), true);
      const statuses: number[] = [];
      for (let i = 0; i < 12; i++) statuses.push((await revoke({ token, client_secret: 'wrong' })).status);
      assert.ok(statuses.includes(429));
    });
  });
});
