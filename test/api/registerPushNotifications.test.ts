import assert from 'node:assert/strict';
import { getRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import { startProxy } from '../proxy.js';
import { startReceiver, until, verifies } from '../receiver.js';
import { forTest, itWithOneRedis, opened, openForSuite, redisPatience, servers } from '../servers.js';
import { type Customer, type Harness, keptLog, newCustomer, startHarness } from '../service.js';

const url = 'http://127.0.0.1:9/hook?key=a%2Fb&to=c';
const encoded = encodeURIComponent(url);

const unpaced = { ACCOUNT_RATE_PER_SECOND: '10000' };

describe('POST /register_push_notifications', () => {
  const { lines, log } = keptLog('warn');
  const h = openForSuite(() =>
    startHarness({ ...unpaced, OPERATOR_CONTACT: 'ops at example', OWN_PORTS: '3999' }, 'api', {
      log,
      async lookup(host) {
        if (host === 'private.example') return [{ address: '10.0.0.1', family: 4 }];
        throw Object.assign(new Error(), { code: host === 'silent.example' ? 'EAI_AGAIN' : 'ENOTFOUND' });
      },
    }),
  );
  let customer: Customer;

  beforeEach(async () => {
    customer = await newCustomer(h);
  });

  const register = (target = url, to?: Harness) =>
    customer.call('POST', `/register_push_notifications?url=${encodeURIComponent(target)}`, undefined, to);
  const stored = () => getRegistration(h.db, customer.client_token);
  const already = 'A url is already registered. Please contact ops at example';

  async function assertError(
    answer: Response | Awaited<ReturnType<typeof register>>,
    status: number,
    says: RegExp | string,
  ): Promise<void> {
    const body = answer instanceof Response ? ((await answer.json()) as Record<string, string>) : answer.body;
    assert.equal(answer.status, status, JSON.stringify(body));
    if (typeof says === 'string') assert.equal(body.msg, says);
    else assert.match(String(body.msg), says);
  }

  it('answers {"success": true, "url": "<the decoded url>"}, then 400 for the same URL and for any other, until a reset', async () => {
    const answer = await register();
    assert.deepEqual([answer.status, answer.body], [200, { success: true, url }]);
    assert.equal((await stored())?.url, url);
    for (const next of [url, 'http://127.0.0.1:9/other', 'ftp://nowhere'])
      await assertError(await register(next), 400, already);
    await resetRegistration(h.db, customer.client_token);
    assert.equal((await register()).status, 200);
  });

  it('accepts the token as a parameter, a raw url, and a token with any scope of the account', async () => {
    const { client_token, token } = await newCustomer(h, ['reports']);
    const raw = 'http://127.0.0.1:9/hook?a=b=c';
    const query = `access_token=${token}&client_token=${client_token}&url=${raw}`;
    const answer = await fetch(`${h.url}/register_push_notifications?${query}`, { method: 'POST' });
    assert.deepEqual(await answer.json(), { success: true, url: raw });
  });

  const names = ['access_token', 'client_token', 'url'];
  type Wrong = [what: string, change: (query: string) => string, says: RegExp];
  const wrong: Wrong[] = [
    ...names.flatMap((name): Wrong[] => {
      const given = new RegExp(`${name}=[^&]*`);
      return [
        [`${name} missing`, (query) => query.replace(given, ''), new RegExp(`${name} is missing`)],
        [`${name} empty`, (query) => query.replace(given, `${name}=`), new RegExp(`${name} is empty`)],
        [`${name} repeated`, (query) => `${query}${name}=again`, new RegExp(`${name} is repeated`)],
        [`${name} encoded wrongly`, (query) => query.replace(given, `${name}=%zz`), new RegExp(name)],
      ];
    }),
    [
      'a raw url with &',
      (query) => query.replace(encoded, 'https://e.example/?b=1&c=2'),
      /parameter c is not known; .*percent-encoded/,
    ],
  ];
  for (const [what, change, says] of wrong) {
    it(`a parameter: ${what}: 400 naming it`, async () => {
      const { token, client_token } = customer;
      const query = change(`access_token=${token}&client_token=${client_token}&url=${encoded}&`);
      const answer = await fetch(`${h.url}/register_push_notifications?${query.replace(/&$/, '')}`, {
        method: 'POST',
      });
      await assertError(answer, 400, says);
    });
  }

  for (const [what, target, code, says] of [
    ['not an absolute URL', '/hook', 'url_not_absolute', /absolute/],
    ['percent-encoded twice', encoded, 'url_not_absolute', /is percent-encoded twice: encode it once/],
    ['with a port above 65535', 'https://example.com:65536/', 'url_not_absolute', /valid host and port/],
    ['with a space', `${url} d`, 'url_not_absolute', /spaces/],
    ['of another scheme', 'ftp://example.com/', 'url_scheme', /https/],
    ['over 2,048 characters', `https://example.com/${'x'.repeat(2048)}`, 'url_too_long', /2,?048/],
    ['with user:password', 'https://user:password@example.com/', 'url_credentials', /./],
    ['with a fragment', 'https://example.com/#part', 'url_fragment', /./],
    ['with a name that does not exist', 'https://nowhere.example/', 'url_unknown_host', /or has no address/],
    ['with an address that is not public', 'https://10.0.0.1/', 'url_not_public', /./],
    ['with a name whose address is not public', 'https://private.example/', 'url_not_public', /./],
    ['one of the service’s own', 'http://127.0.0.1:3999/hook', 'url_own_address', /./],
    // With Retry-After, as the description says; the log says it once a minute.
    ['whose resolver is silent', 'https://silent.example/', 'resolver_unavailable', /name servers that/],
  ] as const) {
    const status = code === 'resolver_unavailable' ? 503 : 400;
    it(`a url ${what}: ${status} saying so`, async () => {
      const answer = await register(target);
      assert.equal(answer.body.code, code);
      await assertError(answer, status, says);
      assert.equal(await stored(), undefined);
      if (status === 400) return;
      assert.equal((await register(target)).status, status);
      const told = lines.filter(({ msg }) => msg === 'answered 503');
      assert.deepEqual([told.length, String(told[0]?.reason).match(says)?.length], [1, 1]);
    });
  }

  describe('that is verified', () => {
    const receiver = forTest(() => startReceiver());
    const verified = openForSuite(() => startHarness({ VERIFY_REGISTRATIONS: 'true' }, 'api'));
    let verify: ReturnType<typeof verifies>;

    const ask = (more = '&verify=true') =>
      customer.call('POST', `/register_push_notifications?url=${encodeURIComponent(receiver.url)}${more}`);
    const prepare = async (at: Harness) => {
      customer = await newCustomer(at);
      const { body } = await customer.call('GET', '/push_notifications/signing_secret');
      verify = verifies(String(body.signing_secret));
      receiver.answer = verify;
    };
    beforeEach(() => prepare(h));

    it('sends one signed test and one with a wrong signature, and stores the URL of a receiver that tells them apart', async () => {
      assert.equal((await ask()).status, 200);
      assert.deepEqual(
        receiver.received.map(({ body }) => body),
        Array(2).fill('{"event":"test","platform_id":"test"}'),
      );
      assert.equal((await stored())?.url, receiver.url);
    });

    const refusals: [what: string, answer: (n: number) => number, says: RegExp, requests: number][] = [
      ['accepts everything', () => 200, /It accepts .* a wrong signature\. .*a default page answers/, 2],
      [
        'refuses everything',
        () => 401,
        /does not accept a signed test notification\. Your server answers 401/,
        1,
      ],
      ['fails at the second', (n) => (n === 1 ? 200 : 500), /does not clearly refuse .* wrong signature/, 2],
      ['is busy at the second', (n) => (n === 1 ? 200 : 429), /does not clearly refuse .* answers 429/, 2],
    ];
    for (const [what, answer, says, requests] of refusals) {
      it(`refuses one that ${what}, saying which, and stores nothing`, async () => {
        receiver.answer = () => answer(receiver.received.length);
        const refused = await ask();
        assert.equal(refused.body.code, 'receiver_not_verified');
        await assertError(refused, 400, says);
        assert.deepEqual([receiver.received.length, await stored()], [requests, undefined]);
        assert.equal((await ask('')).status, 200, 'without the parameter nothing is verified');
      });
    }

    it('is demanded of every registration with VERIFY_REGISTRATIONS, whatever the call says', async () => {
      await prepare(verified);
      receiver.answer = () => 200;
      for (const more of ['', '&verify=false']) {
        assert.equal((await ask(more)).body.code, 'receiver_not_verified');
        await customer.forgetSends();
      }
      receiver.answer = verify;
      assert.equal((await ask('')).status, 200);
    });

    it('counts as two of the eight calls at once that send something, and takes true and false only', async () => {
      receiver.answer = () => 200;
      for (let i = 0; i < 4; i++) assert.equal((await ask()).status, 400);
      assert.equal((await ask()).status, 429);
      await assertError(await ask('&verify=yes'), 400, /verify must be true or false/);
    });
  });

  it('answers 200 to exactly one of 200 concurrent registrations at two processes', async () => {
    const second = opened(await startHarness({ ...unpaced, KEY_PREFIX: h.prefix }, 'api'));
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        register(i % 3 === 0 ? url : `http://127.0.0.1:9/hook/${i % 7}`, i % 2 === 0 ? h : second),
      ),
    );
    const [first, ...others] = answers.map(({ status }) => status).toSorted();
    assert.equal(first, 200);
    // The audit takes 50 of those that come before the first is stored.
    assert.ok(others.every((status) => status === 400 || status === 429));
    assert.equal((await stored())?.url, answers.find(({ status }) => status === 200)?.body.url);
  });

  itWithOneRedis(
    'answers 503 when Redis’ reply is lost, then 200 to the repeat, and 400 to the next one',
    async () => {
      const proxy = opened(await startProxy(servers().redisUrl));
      const settings = { KEY_PREFIX: h.prefix, REDIS_URL: proxy.url };
      const proxied = opened(await startHarness(settings, 'api', redisPatience()));
      const mine = customer;
      // The scripts are there then: the command that is cut is the one that stores.
      customer = await newCustomer(h);
      assert.equal((await register(url, proxied)).status, 200);
      customer = mine;
      const lost = proxy.cutBeforeReply(url);
      await assertError(await register(url, proxied), 503, /try again/);
      await lost;
      assert.deepEqual([(await stored())?.url, (await stored())?.answered], [url, false]);
      assert.equal((await register()).status, 200);
      await until('it is answered', async () => (await stored())?.answered);
      await assertError(await register(), 400, already);
    },
  );
});
