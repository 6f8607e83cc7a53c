import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { findAccessToken, mintAccessToken } from '../../src/redis/records/accessTokens.js';
import { rotateSecret, setDisabled } from '../../src/redis/records/accounts.js';
import { listCalls } from '../../src/redis/records/audit.js';
import { keysMatching } from '../keysMatching.js';
import { startProxy } from '../proxy.js';
import { itWithOneRedis, servers } from '../servers.js';
import { newCustomer, newToken, type RunningApi, startApi, tokenFields } from '../service.js';
import { credentialsOf, isTaken } from './credentials.js';

const run = promisify(execFile);

/** test/skips.json names those that need it. */
const skipWithoutCurl = (test: Mocha.Context) => run('curl', ['--version']).catch(() => test.skip());

describe('POST /oauth/access_token', () => {
  let api: RunningApi;
  let account: Awaited<ReturnType<typeof newCustomer>>;

  before(async () => {
    api = await startApi();
    account = await newCustomer(api, ['push_notifications', 'reports']);
  });
  after(() => api.close());

  const post = (
    body: string | URLSearchParams | FormData | Uint8Array,
    headers: Record<string, string> = {},
  ) =>
    fetch(`${api.url}/oauth/access_token`, {
      method: 'POST',
      body,
      headers: {
        ...(typeof body === 'string' && { 'content-type': 'application/x-www-form-urlencoded' }),
        ...headers,
      },
    });

  async function assertError(answer: Response, status: number, error: string, says?: RegExp): Promise<void> {
    const body = (await answer.json()) as Record<string, string>;
    assert.deepEqual([answer.status, body.error], [status, error]);
    assert.deepEqual(Object.keys(body), ['error', 'error_description']);
    if (says) assert.match(body.error_description ?? '', says);
    assert.equal(answer.headers.get('cache-control'), 'no-store');
    assert.ok(answer.headers.get('x-request-id'));
  }

  describe('200', () => {
    const curl = async (...args: string[]): Promise<Record<string, unknown>> => {
      const { stdout } = await run('curl', [
        '-sS',
        '--max-time',
        '10',
        ...args,
        `${api.url}/oauth/access_token`,
      ]);
      return JSON.parse(stdout) as Record<string, unknown>;
    };
    const fieldsAs = (flag: string) =>
      Object.entries(tokenFields(account)).flatMap(([name, value]) => [flag, `${name}=${value}`]);

    for (const [encoding, flag] of [
      ['application/x-www-form-urlencoded', '--data-urlencode'],
      ['multipart/form-data', '-F'],
    ] as const) {
      it(`answers a token for ${encoding}, sent by curl`, async function () {
        await skipWithoutCurl(this);
        const { access_token: token, ...rest } = await curl(...fieldsAs(flag));
        assert.deepEqual(rest, {
          token_type: 'Bearer',
          expires_in: 3600,
          scope: 'push_notifications reports',
        });
        assert.deepEqual(await findAccessToken(api.deps.db, String(token)), {
          fingerprint: createHash('sha256').update(String(token)).digest('hex').slice(0, 12),
          accountId: account.account_id,
          generation: 1,
          scopes: ['push_notifications', 'reports'],
        });
      });
    }

    it('takes the credentials as Authorization: Basic, as RFC 6749 encodes them', async () => {
      const { client_id: id, client_secret: secret, ...fields } = tokenFields(account);
      const basic = (pair: string) => ({ authorization: `Basic ${Buffer.from(pair).toString('base64')}` });
      // Percent-encoded more than it need be, as some libraries do.
      const encoded = secret.replaceAll(/[-_]/g, (one) => `%${one.charCodeAt(0).toString(16)}`);
      const answer = await post(new URLSearchParams(fields), basic(`${id}:${encoded}`));
      assert.equal(answer.status, 200);
      const wrong = await post(new URLSearchParams(fields), basic(`${id}:${secret}x`));
      assert.match(wrong.headers.get('www-authenticate') ?? '', /^Basic /);
      await assertError(wrong, 401, 'invalid_client');
      const both = await post(new URLSearchParams(tokenFields(account)), basic(`${id}:${secret}`));
      await assertError(both, 400, 'invalid_request', /not as both/);
      for (const odd of ['Basic %%%', 'Basic', 'Bearer abc']) {
        const refused = await post(new URLSearchParams(fields), { authorization: odd });
        await assertError(refused, 400, 'invalid_request', /client_id|client_secret/);
      }
    });

    it('has Cache-Control: no-store and Pragma: no-cache', async () => {
      const answer = await post(new URLSearchParams(tokenFields(account)));
      assert.equal(answer.headers.get('cache-control'), 'no-store');
      assert.equal(answer.headers.get('pragma'), 'no-cache');
    });

    it('gives the subset of the scopes asked for, and only that', async () => {
      const answer = await post(new URLSearchParams({ ...tokenFields(account), scope: 'reports' }));
      const { access_token: token, scope } = (await answer.json()) as { access_token: string; scope: string };
      assert.equal(scope, 'reports');
      assert.deepEqual((await findAccessToken(api.deps.db, token))?.scopes, ['reports']);
    });

    it('accepts the charset UTF-8 and an unknown parameter', async () => {
      const fields = new URLSearchParams({ ...tokenFields(account), extra: 'ü' }).toString();
      const type = 'Application/X-WWW-Form-urlencoded; charset="UTF-8"';
      assert.equal((await post(fields, { 'content-type': type })).status, 200);
    });
  });

  describe('another content type, a content encoding: 415 invalid_request', () => {
    for (const type of [
      'application/json',
      'text/plain',
      'application/x-www-form-urlencoded; charset=utf-16',
    ]) {
      it(type, async () => {
        await assertError(await post('{}', { 'content-type': type }), 415, 'invalid_request');
      });
    }
    it('none', async () => {
      await assertError(await post(new Uint8Array(3)), 415, 'invalid_request');
    });
    for (const encoding of ['gzip', 'br', 'identity']) {
      it(`Content-Encoding: ${encoding}, which is never unpacked`, async () => {
        const fields = new URLSearchParams(tokenFields(account)).toString();
        const headers = {
          'content-type': 'application/x-www-form-urlencoded',
          'content-encoding': encoding,
        };
        const body = encoding === 'gzip' ? gzipSync(fields) : fields;
        await assertError(await post(body, headers), 415, 'invalid_request', /Content-Encoding/);
      });
    }
  });

  describe('body over 4 KiB; a file part; unreadable body: 413; 400; 400 invalid_request', () => {
    const long = 'x'.repeat(4_200);

    it('over 4 KiB', async () => {
      await assertError(await post(`client_id=${long}`), 413, 'invalid_request');
    });
    it('over 4 KiB, without a length', async () => {
      const stream = new ReadableStream({
        start(controller) {
          controller.enqueue(Buffer.from(`client_id=${long}`));
          controller.close();
        },
      });
      const answer = await fetch(`${api.url}/oauth/access_token`, {
        method: 'POST',
        body: stream,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        duplex: 'half',
      } as RequestInit);
      await assertError(answer, 413, 'invalid_request');
    });
    it('over 4 KiB as multipart', async () => {
      const form = new FormData();
      form.set('client_id', long);
      await assertError(await post(form), 413, 'invalid_request');
    });
    it('a file part', async () => {
      const form = new FormData();
      for (const [name, value] of Object.entries(tokenFields(account))) form.set(name, value);
      form.set('client_secret', new Blob([account.client_secret]), 'secret.txt');
      await assertError(await post(form), 400, 'invalid_request', /file/);
    });
    for (const [name, body, headers] of [
      ['a broken percent-encoding', 'client_id=%zz', {}],
      ['bytes that are no UTF-8', 'client_id=%ff', {}],
      [
        'multipart without its end',
        '--b\r\ncontent-disposition: form-data; name="a"\r\n\r\nx',
        { 'content-type': 'multipart/form-data; boundary=b' },
      ],
      ['multipart without a boundary', '--b--\r\n', { 'content-type': 'multipart/form-data' }],
    ] as [string, string, Record<string, string>][]) {
      it(name, async () => {
        await assertError(await post(body, headers), 400, 'invalid_request');
      });
    }
  });

  describe('a field missing, empty or repeated: 400 invalid_request, naming it', () => {
    for (const name of ['grant_type', 'client_id', 'client_secret', 'scope']) {
      it(`${name} missing`, async () => {
        const fields = new URLSearchParams(tokenFields(account));
        fields.delete(name);
        await assertError(await post(fields), 400, 'invalid_request', new RegExp(name));
      });
      it(`${name} empty`, async () => {
        const fields = new URLSearchParams({ ...tokenFields(account), [name]: '  ' });
        await assertError(await post(fields), 400, 'invalid_request', new RegExp(name));
      });
      it(`${name} repeated`, async () => {
        const fields = new FormData();
        for (const [key, value] of Object.entries(tokenFields(account))) fields.append(key, value);
        fields.append(name, 'again');
        await assertError(await post(fields), 400, 'invalid_request', new RegExp(name));
      });
    }
    it('an empty body', async () => {
      await assertError(await post(''), 400, 'invalid_request', /grant_type/);
    });
  });

  it('another grant_type: 400 unsupported_grant_type', async () => {
    const fields = { ...tokenFields(account), grant_type: 'client_credentials', client_secret: 'wrong' };
    await assertError(await post(new URLSearchParams(fields)), 400, 'unsupported_grant_type');
  });

  describe('too many requests for one client_id, or failures for one client_id from one address: 429 with Retry-After', () => {
    it('gives the tokens of one second, and no more', async () => {
      const slow = await startApi({ prefix: api.prefix, env: { TOKEN_RATE_PER_SECOND: '3' } });
      try {
        const customer = await newCustomer(slow);
        const answers = await Promise.all(
          Array.from({ length: 12 }, () =>
            fetch(`${slow.url}/oauth/access_token`, {
              method: 'POST',
              body: new URLSearchParams(tokenFields(customer)),
            }),
          ),
        );
        const refused = answers.filter((answer) => answer.status === 429);
        assert.ok(refused.length > 0 && answers.every((answer) => [200, 429].includes(answer.status)));
        assert.ok(Number(refused[0]?.headers.get('retry-after')) >= 1);
      } finally {
        await slow.close();
      }
    });

    it('counts failures over all processes, and still serves the customer at another address', async () => {
      const env = { TRUSTED_PROXIES: '127.0.0.0/8' };
      const apis = await Promise.all([1, 2].map(() => startApi({ prefix: api.prefix, env })));
      try {
        const call = (i: number, secret: string, address: string) =>
          fetch(`${apis[i % 2]?.url}/oauth/access_token`, {
            method: 'POST',
            headers: { 'x-forwarded-for': `198.51.100.1, ${address}` },
            body: new URLSearchParams({ ...tokenFields(account), client_secret: secret }),
          });
        const statuses: number[] = [];
        for (let i = 0; i < 14; i++) statuses.push((await call(i, 'guess', '203.0.113.7')).status);
        assert.deepEqual(statuses, [...Array(10).fill(401), ...Array(4).fill(429)]);
        assert.equal((await call(0, account.client_secret, '203.0.113.7')).status, 429);
        assert.equal((await call(0, account.client_secret, '203.0.113.8')).status, 200);
      } finally {
        await Promise.all(apis.map((other) => other.close()));
      }
    });

    it('counts failures of an IPv6 caller over all addresses of its /64', async () => {
      const trusting = await startApi({ prefix: api.prefix, env: { TRUSTED_PROXIES: '127.0.0.0/8' } });
      try {
        const customer = await newCustomer(trusting);
        const guess = (address: string) =>
          fetch(`${trusting.url}/oauth/access_token`, {
            method: 'POST',
            headers: { 'x-forwarded-for': address },
            body: new URLSearchParams({ ...tokenFields(customer), client_secret: 'guess' }),
          });
        const statuses: number[] = [];
        for (let i = 0; i < 12; i++) statuses.push((await guess(`2001:db8:0:7:${i}::1`)).status);
        assert.deepEqual(statuses, [...Array(10).fill(401), 429, 429]);
        assert.equal((await guess('2001:db8:0:8::1')).status, 401);
      } finally {
        await trusting.close();
      }
    });

    it('ignores X-Forwarded-For from a caller that is not a trusted proxy', async () => {
      const customer = await newCustomer(api);
      const statuses: number[] = [];
      for (let i = 0; i < 11; i++) {
        const fields = new URLSearchParams({ ...tokenFields(customer), client_secret: 'guess' });
        statuses.push((await post(fields, { 'x-forwarded-for': `203.0.113.${i}` })).status);
      }
      assert.equal(statuses.at(-1), 429);
    });
  });

  describe('a scope the account does not have: 400 invalid_scope', () => {
    it('says so to a caller with the secret', async () => {
      const fields = { ...tokenFields(account), scope: 'push_notifications enrichments' };
      await assertError(await post(new URLSearchParams(fields)), 400, 'invalid_scope');
    });
    it('does not say so to a caller without it', async () => {
      const fields = { ...tokenFields(account), scope: 'enrichments', client_secret: 'wrong' };
      await assertError(await post(new URLSearchParams(fields)), 401, 'invalid_client');
    });
  });

  describe('Redis is unavailable: 503 with Retry-After', () => {
    for (const way of ['it does not answer', 'it is gone'] as const) {
      itWithOneRedis(way, async () => {
        const proxy = await startProxy(servers().redisUrl);
        const cut = await startApi({ prefix: api.prefix, redisUrl: proxy.url });
        try {
          if (way === 'it is gone') await proxy.close();
          else proxy.hang();
          const answer = await fetch(`${cut.url}/oauth/access_token`, {
            method: 'POST',
            body: new URLSearchParams(tokenFields(account)),
          });
          assert.equal(answer.headers.get('retry-after'), '1');
          await assertError(answer, 503, 'temporarily_unavailable');
        } finally {
          await cut.close();
          await proxy.close();
        }
      });
    }
  });

  it('has the first token of an account and network in a day in the audit, and no other', async () => {
    const env = { TRUSTED_PROXIES: '127.0.0.0/8' };
    const apis = await Promise.all([1, 2].map(() => startApi({ prefix: api.prefix, env })));
    try {
      const customer = await newCustomer(api);
      const addresses = ['2001:db8::1', '2001:db8::2', '2001:db8:0:1::1', '2001:db8::1'];
      for (const [i, address] of addresses.entries()) {
        const answer = await fetch(`${apis[i % 2]?.url}/oauth/access_token`, {
          method: 'POST',
          headers: { 'x-forwarded-for': address },
          body: new URLSearchParams(tokenFields(customer)),
        });
        assert.equal(answer.status, 200);
      }
      const found = (await listCalls(api.deps.db)).filter((call) => call.accountId === customer.account_id);
      assert.deepEqual(
        found.map(({ what, address }) => [what, address]),
        [
          ['first token of the day', '2001:db8::1'],
          ['first token of the day', '2001:db8:0:1::1'],
        ],
      );
    } finally {
      await Promise.all(apis.map((other) => other.close()));
    }
  });

  describe('tokens', () => {
    it('a new token ends no older one', async () => {
      const older = await newToken(api, account);
      await newToken(api, account);
      assert.ok(await findAccessToken(api.deps.db, older));
    });

    it('Redis holds only the SHA-256, with a TTL', async () => {
      const { redis, global } = api.deps.db;
      const token = await newToken(api, account);
      const hash = createHash('sha256').update(token).digest('hex');
      const key = global.accessToken(account.account_id, hash);
      assert.ok((await redis.pttl(key)) > 3_500_000);
      for (const found of await keysMatching(api.deps.db, `${api.prefix}*`))
        assert.ok(!found.includes(token));
      assert.ok(!(await redis.get(key))?.includes(token));
    });

    it('disabling the account ends its tokens immediately, also one minted at that moment, and enabling revives none', async () => {
      const { db } = api.deps;
      const customer = await newCustomer(api);
      const token = await newToken(api, customer);
      const inThatMoment: Promise<string | undefined>[] = [];
      for (let i = 0; i < 20; i++) {
        const minted = mintAccessToken(db, credentialsOf(customer), ['push_notifications'], 60);
        inThatMoment.push(minted.then((m) => (m.outcome === 'minted' ? m.token : undefined)));
        if (i === 10) inThatMoment.push(setDisabled(db, customer.account_id, true).then(() => undefined));
      }
      const tokens = [token, ...(await Promise.all(inThatMoment))].filter((t) => t !== undefined);
      assert.ok(tokens.length > 1);
      const found = () => Promise.all(tokens.map((t) => findAccessToken(db, t)));
      assert.ok((await found()).every((t) => t === undefined));
      await setDisabled(db, customer.account_id, false);
      assert.ok((await found()).every((t) => t === undefined));
      assert.ok(await findAccessToken(db, await newToken(api, customer)));
    });

    it('24 h after a rotation the old secret has ended', async () => {
      const customer = await newCustomer(api);
      await rotateSecret(api.deps.db, customer.account_id);
      const tomorrow = { ...api.deps.db, clockOffsetMs: () => 24 * 3_600_000 + 1000 };
      assert.ok(!(await isTaken(tomorrow, customer.client_id, customer.client_secret)));
    });
  });
});
