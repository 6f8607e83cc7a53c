import assert from 'node:assert/strict';
import { getRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import { startProxy } from '../proxy.js';
import { describeWithOneRedis, itWithOneRedis, servers } from '../servers.js';
import { newCustomer, newToken, type RunningApi, startApi } from '../service.js';

describe('POST /register_push_notifications', () => {
  const url = 'http://127.0.0.1:9/hook?key=a%2Fb&to=c d';
  const goodUrl = 'http://127.0.0.1:9/hook?key=a%2Fb&to=c';
  let api: RunningApi;
  let customer: Omit<Awaited<ReturnType<typeof newCustomer>>, 'client_token'> & { client_token: string };
  let token: string;

  before(async () => {
    api = await startApi({ env: { OPERATOR_CONTACT: 'ops at example' } });
  });
  beforeEach(async () => {
    customer = await newCustomer(api);
    token = await newToken(api, customer);
  });
  after(() => api.close());

  const call = (query: string, headers: Record<string, string> = {}, to = api) =>
    fetch(`${to.url}/register_push_notifications?${query}`, { method: 'POST', headers });

  const register = (to: RunningApi = api, target = goodUrl) =>
    call(
      new URLSearchParams({
        access_token: token,
        client_token: customer.client_token,
        url: target,
      }).toString(),
      {},
      to,
    );

  async function assertError(answer: Response, status: number, says: RegExp | string): Promise<void> {
    const body = (await answer.json()) as { msg: string; code: string; request_id: string };
    assert.equal(answer.status, status, JSON.stringify(body));
    if (typeof says === 'string') assert.equal(body.msg, says);
    else assert.match(body.msg, says);
    assert.match(body.code, /^[a-z_]+$/);
    assert.equal(body.request_id, answer.headers.get('x-request-id'));
  }

  async function answered(to: RunningApi = api): Promise<void> {
    while (!(await getRegistration(to.deps.db, customer.client_token))?.answered) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  describe('200', () => {
    it('accepts 2,048 bytes percent-encoded, and no more', async () => {
      const euros = Math.floor((2048 - `${goodUrl}?`.length) / '%E2%82%AC'.length);
      const long = `${goodUrl}?${'€'.repeat(euros)}`;
      assert.equal((await register(api, long)).status, 200);
      const other = await newCustomer(api);
      const longer = {
        access_token: await newToken(api, other),
        client_token: other.client_token,
        url: `${long}€`,
      };
      await assertError(await call(new URLSearchParams(longer).toString()), 400, /2,?048/);
    });

    it('{"success": true, "url": "<the decoded url>"}', async () => {
      const answer = await register();
      assert.equal(answer.status, 200);
      assert.deepEqual(await answer.json(), { success: true, url: goodUrl });
      const stored = await getRegistration(api.deps.db, customer.client_token);
      assert.equal(stored?.url, goodUrl);
      assert.equal(stored?.generation, 1);
    });

    it('accepts the token from Authorization: Bearer, and a raw url', async () => {
      const raw = 'http://127.0.0.1:9/hook?a=b=c';
      const answer = await call(`client_token=${customer.client_token}&url=${raw}`, {
        authorization: `Bearer ${token}`,
      });
      assert.deepEqual(await answer.json(), { success: true, url: raw });
    });

    it('accepts a token with any scope of the account', async () => {
      customer = await newCustomer(api, ['reports']);
      token = await newToken(api, customer);
      assert.equal((await register()).status, 200);
    });
  });

  describe('a parameter missing, empty, repeated or unknown: 400 naming it', () => {
    for (const name of ['access_token', 'client_token', 'url']) {
      const parameters = () =>
        new URLSearchParams({ access_token: token, client_token: customer.client_token, url: goodUrl });
      it(`${name} missing`, async () => {
        const query = parameters();
        query.delete(name);
        await assertError(await call(query.toString()), 400, new RegExp(`${name} is missing`));
      });
      it(`${name} empty`, async () => {
        const query = parameters();
        query.set(name, '');
        await assertError(await call(query.toString()), 400, new RegExp(`${name} is empty`));
      });
      it(`${name} repeated`, async () => {
        const query = parameters();
        query.append(name, 'again');
        await assertError(await call(query.toString()), 400, new RegExp(`${name} is repeated`));
      });
      it(`${name} with a broken percent-encoding`, async () => {
        const query = parameters();
        query.delete(name);
        await assertError(await call(`${query}&${name}=%zz`), 400, new RegExp(name));
      });
    }
    it('unknown', async () => {
      await assertError(await call(`access_token=${token}&colour=red`), 400, /colour is not known$/);
    });
    it('a raw url with &: must be percent-encoded', async () => {
      const query = `access_token=${token}&client_token=${customer.client_token}&url=https://example.com/a?b=1&c=2`;
      await assertError(await call(query), 400, /parameter c is not known; .*percent-encoded/);
    });
    it('the token both as a parameter and as a header', async () => {
      const answer = await call(`access_token=${token}`, { authorization: `Bearer ${token}` });
      await assertError(answer, 400, /access_token/);
    });
  });

  describe('the client already has a URL, the same one or another: 400', () => {
    const says = 'A url is already registered. Please contact ops at example';
    it('the same one', async () => {
      assert.equal((await register()).status, 200);
      await assertError(await register(), 400, says);
    });
    it('another one, and one that could not be registered', async () => {
      assert.equal((await register()).status, 200);
      await assertError(await register(api, 'http://127.0.0.1:9/other'), 400, says);
      await assertError(await register(api, 'ftp://nowhere'), 400, says);
    });
    it('accepts another URL after a reset, in a new generation', async () => {
      await register();
      await resetRegistration(api.deps.db, customer.client_token);
      assert.equal((await register()).status, 200);
      assert.equal((await getRegistration(api.deps.db, customer.client_token))?.generation, 3);
    });
  });

  describe('a url that cannot be registered: 400 saying why', () => {
    let strict: RunningApi;
    before(async () => {
      strict = await startApi({
        prefix: api.prefix,
        env: { ALLOW_HTTP_TARGETS: 'false', ALLOWED_TARGET_CIDRS: '' },
        lookup: async (host) => {
          if (host === 'private.example') return [{ address: '10.0.0.1', family: 4 }];
          throw Object.assign(new Error('no such name'), { code: 'ENOTFOUND' });
        },
      });
    });
    after(() => strict.close());

    for (const [what, target, code] of [
      ['not an absolute URL', '/hook', 'url_not_absolute'],
      ['http', 'http://example.com/', 'url_scheme'],
      ['another scheme', 'ftp://example.com/', 'url_scheme'],
      ['over 2,048 characters', `https://example.com/${'x'.repeat(2048)}`, 'url_too_long'],
      ['user:password', 'https://user:password@example.com/', 'url_credentials'],
      ['a fragment', 'https://example.com/#part', 'url_fragment'],
      ['a name that does not exist', 'https://nowhere.example/', 'url_unknown_host'],
      ['an address that is not public', 'https://10.0.0.1/', 'url_not_public'],
      ['a name whose address is not public', 'https://private.example/', 'url_not_public'],
      ['a space', 'https://example.com/a b', 'url_not_absolute'],
    ] as const) {
      it(what, async () => {
        const answer = await register(strict, target);
        const body = (await answer.json()) as { msg: string; code: string };
        assert.deepEqual([answer.status, body.code], [400, code], body.msg);
        assert.equal(await getRegistration(api.deps.db, customer.client_token), undefined);
      });
    }
    it('one of the service’s own', async () => {
      const own = await startApi({ prefix: api.prefix, env: { OWN_PORTS: '3999' } });
      const answer = await register(own, 'http://127.0.0.1:3999/hook');
      await own.close();
      assert.equal(((await answer.json()) as { code: string }).code, 'url_own_address');
    });
    it('one that is not a URL after decoding once', async () => {
      await assertError(await register(api, url), 400, /spaces/);
      await assertError(await register(api, encodeURIComponent(goodUrl)), 400, /absolute/);
    });
  });

  describe('the resolver does not answer; Redis is unavailable: 503 with Retry-After', () => {
    it('the resolver does not answer', async () => {
      const lookup = async () => {
        throw Object.assign(new Error('try again'), { code: 'EAI_AGAIN' });
      };
      const deaf = await startApi({ prefix: api.prefix, lookup });
      const answer = await register(deaf, 'https://example.com/');
      await deaf.close();
      assert.ok(answer.headers.get('retry-after'));
      await assertError(answer, 503, /looked up/);
    });
    itWithOneRedis('Redis is unavailable', async () => {
      const proxy = await startProxy(servers().redisUrl);
      const cut = await startApi({ prefix: api.prefix, redisUrl: proxy.url });
      proxy.hang();
      const answer = await register(cut);
      await cut.close();
      await proxy.close();
      assert.equal(answer.headers.get('retry-after'), '1');
      await assertError(answer, 503, /try again/);
    });
  });

  it('answers 200 to exactly one of 200 concurrent registrations at two processes', async () => {
    const second = await startApi({ prefix: api.prefix });
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        register(i % 2 === 0 ? api : second, i % 3 === 0 ? goodUrl : `http://127.0.0.1:9/hook/${i % 7}`),
      ),
    );
    await second.close();
    const statuses = answers.map((answer) => answer.status);
    assert.deepEqual(
      [200, 400].map((status) => statuses.filter((s) => s === status).length),
      [1, 199],
    );
    const winner = (await answers.find((answer) => answer.status === 200)?.json()) as { url: string };
    assert.equal((await getRegistration(api.deps.db, customer.client_token))?.url, winner.url);
  });

  describeWithOneRedis('failures between Redis and the API', () => {
    let proxied: RunningApi;
    let proxy: Awaited<ReturnType<typeof startProxy>>;
    beforeEach(async () => {
      proxy = await startProxy(servers().redisUrl);
      proxied = await startApi({ prefix: api.prefix, redisUrl: proxy.url });
      // The scripts are there already: the command that is cut is the one that stores.
      const mine = customer;
      customer = await newCustomer(api);
      token = await newToken(api, customer);
      assert.equal((await register(proxied)).status, 200);
      customer = mine;
      token = await newToken(api, customer);
    });
    afterEach(async () => {
      await proxied.close();
      await proxy.close();
    });

    it('answers 503 when the reply is lost, then 200 to the repeat, and 400 to the next one', async () => {
      const lost = proxy.cutBeforeReply(goodUrl);
      await assertError(await register(proxied), 503, /try again/);
      await lost;
      const stored = await getRegistration(api.deps.db, customer.client_token);
      assert.deepEqual([stored?.url, stored?.answered], [goodUrl, false]);
      assert.equal((await register()).status, 200);
      await answered();
      await assertError(await register(), 400, /already registered/);
    });
  });
});
