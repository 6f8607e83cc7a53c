import assert from 'node:assert/strict';
import { forSuite, openForSuite } from '../servers.js';
import { type Customer, newCustomer, newToken, startHarness } from '../service.js';
import { calls } from './everyCall.js';
import { callRaw, statusesIn } from './rawCaller.js';

const lookedUp = { lookup: async () => [{ address: '127.0.0.1', family: 4 as const }] };

describe('the pace of calls in one process', () => {
  const settings = {
    TRUSTED_PROXIES: '127.0.0.1/32',
    ACCOUNT_RATE_PER_SECOND: '0.5',
    strangersPerSecond: 20,
  };
  const h = openForSuite(() => startHarness(settings, 'api', lookedUp));
  const platform = forSuite(() => newCustomer(h, ['enrichments']));

  let network = 0;
  /** Sends a call so many times at once. @returns the answers, and the seconds that they took */
  async function flood(count: number, path: string, init: RequestInit = {}, from = `203.0.113.${++network}`) {
    const begun = performance.now();
    const answers = await Promise.all(
      Array.from({ length: count }, async () => {
        const headers = { 'x-forwarded-for': from, ...(init.headers as Record<string, string>) };
        const answer = await fetch(h.url + path, { ...init, headers });
        await answer.arrayBuffer();
        return answer;
      }),
    );
    return { answers, seconds: (performance.now() - begun) / 1000 };
  }
  const refusedOf = (answers: Response[]) =>
    answers.filter((one) => one.status === 429 && one.headers.get('ratelimit-policy')?.startsWith('"calls"'));
  const bearer = (token: string) => ({
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
  });

  it('lets an account make its calls of a second, whichever they are, and refuses those that would wait for longer than a second', async () => {
    const customer = await newCustomer(h);
    const headers = bearer(customer.token);
    assert.equal((await customer.call('GET', '/notices')).status, 404);
    const begun = performance.now();
    const floods = calls
      .filter(({ needsToken }) => needsToken)
      .map(({ method, path, isJson }) => {
        const asked = { method: method.toUpperCase(), headers, ...(isJson && { body: '{}' }) };
        return flood(20, path.replaceAll(/\{\w+\}/g, 'none'), asked);
      });
    const answers = (await Promise.all(floods)).flatMap((one) => one.answers);
    const seconds = (performance.now() - begun) / 1000;
    const refused = refusedOf(answers);
    const carriedOut = answers.length - refused.length;
    assert.ok(refused.length > 0);
    // A call that is not paced would add its twenty.
    assert.ok(carriedOut <= 11 + 5 * seconds, `${carriedOut} in ${seconds} s`);
    assert.equal(refused[0]?.headers.get('ratelimit-policy'), '"calls";q=5;w=1');
    assert.match(refused[0]?.headers.get('retry-after') ?? '', /^[12]$/);

    const [neighbour, event] = [
      await newCustomer(h),
      { event_id: 'an-1', client_token: customer.client_token, platform_id: 'a', segments: ['x'] },
    ];
    assert.equal((await neighbour.call('GET', '/clients')).status, 200);
    await flood(1, '/enrichments', { method: 'POST', headers: bearer(platform.token) });
    const published = await flood(50, '/enrichments', {
      method: 'POST',
      headers: bearer(platform.token),
      body: JSON.stringify(event),
    });
    assert.deepEqual([...new Set(published.answers.map((one) => one.status))], [202]);
  });

  const headers = bearer('x'.repeat(60));
  for (const [what, path, init, weight = 1] of [
    ['bad tokens', '/clients', { headers }],
    ['bad tokens at publishing', '/enrichments', { method: 'POST', headers, body: '{}' }],
    ['bad requests with a bad token', '/clients?nope=1', { headers }],
    ['the description, of which one counts as thirty', '/openapi.json', {}, 30],
    ['pages, of which one counts as ten', '/docs/errors', {}, 10],
    ['paths that are not there', '/nowhere', {}],
  ] as const) {
    it(`lets strangers of one network make their calls of a second: ${what}`, async () => {
      const from = `203.0.113.${++network}`;
      const { answers, seconds } = await flood(120, path, init, from);
      const refused = refusedOf(answers);
      assert.ok(refused.length > 0);
      const carriedOut = (answers.length - refused.length) * weight;
      assert.ok(carriedOut <= 40 + weight + 20 * seconds, `${carriedOut} in ${seconds} s`);
      // From the same network, as behind a proxy that is not trusted.
      const known = await flood(5, '/enrichments', { method: 'POST', headers: bearer(platform.token) }, from);
      const health = await flood(100, '/readyz', {}, from);
      assert.deepEqual(refusedOf([...known.answers, ...health.answers]), []);
      const elsewhere = await flood(weight === 1 ? 5 : 1, path, init);
      assert.deepEqual(refusedOf(elsewhere.answers), []);
    });
  }

  it('paces strangers whose head is refused too', async () => {
    const bytes = `GET /clients# HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 203.0.113.${++network}\r\nConnection: close\r\n\r\n`;
    const heard = await Promise.all(Array.from({ length: 120 }, () => callRaw(h.url, bytes).closed));
    const statuses = heard.flatMap(statusesIn);
    assert.deepEqual([...new Set(statuses)].sort(), [400, 429]);
  });

  it('counts no call that turns out to be of an account towards its network', async () => {
    const customer = await newCustomer(h);
    for (let i = 0; i < 10; i++) {
      await Promise.all(Array.from({ length: 10 }, () => newToken(h, customer)));
    }
    assert.deepEqual(refusedOf((await flood(5, '/nowhere', {}, '127.0.0.1')).answers), []);
  });

  it('counts no call with a token that was revoked towards its account, half a minute later', async () => {
    const customer = await newCustomer(h);
    assert.equal((await customer.call('GET', '/push_notifications')).status, 404);
    const { client_id, client_secret, token } = customer;
    const body = new URLSearchParams({ client_id, client_secret, token });
    assert.equal((await fetch(`${h.url}/oauth/revoke`, { method: 'POST', body })).status, 200);
    const headers = bearer(await newToken(h, customer));
    const { now } = performance;
    performance.now = () => now.call(performance) + 31_000;
    try {
      // The token is looked up again beside the first, and before the second is answered.
      await flood(1, '/nowhere', { headers: bearer(token) });
      await flood(1, '/push_notifications', { headers });
      const [, { answers }] = await Promise.all([
        flood(20, '/nowhere', { headers: bearer(token) }),
        flood(5, '/push_notifications', { headers }),
      ]);
      assert.deepEqual(refusedOf(answers), []);
    } finally {
      performance.now = now;
    }
  });

  const form = ({ client_id }: Customer, client_secret: string) => {
    const fields = { grant_type: 'none', scope: 'push_notifications', client_id, client_secret };
    return { method: 'POST', body: new URLSearchParams(fields) };
  };
  const token = '/oauth/access_token';
  const limited: [what: string, count: number, path: string, init: (customer: Customer) => RequestInit][] = [
    ['calls of an account', 1, '/nowhere', (customer) => ({ headers: bearer(customer.token) })],
    ['calls of a network', 1, '/nowhere', () => ({})],
    ['token calls of an account', 20, token, (customer) => form(customer, customer.client_secret)],
    ['guesses of a secret', 11, token, (customer) => form(customer, 'wrong')],
  ];
  for (const [what, count, path, initOf] of limited)
    it(`has ${what} wait no longer where the machine’s clock is set back by an hour`, async () => {
      const init = initOf(await newCustomer(h));
      const from = `203.0.113.${++network}`;
      // Two networks may ask for more tokens than one account.
      await Promise.all([flood(count, path, init, from), flood(count, path, init)]);
      const { now } = Date;
      Date.now = () => now() - 3_600_000;
      const { answers } = await flood(1, path, init, from).finally(() => {
        Date.now = now;
      });
      for (const { headers } of answers) assert.ok(Number(headers.get('retry-after')) <= 60);
    });

  const slow = openForSuite(() =>
    startHarness({ KEY_PREFIX: h.prefix, heldRefusalMs: 500, ACCOUNT_RATE_PER_SECOND: '0.1' }, 'api'),
  );

  it('answers a refused call late', async () => {
    const customer = await newCustomer(slow);
    await customer.call('GET', '/clients');
    const begun = performance.now();
    assert.equal((await customer.call('GET', '/clients')).status, 429);
    assert.ok(performance.now() - begun >= 199);
  });

  it('answers refusals of one account slowly, over however many connections it asks, and those of others meanwhile', async () => {
    const [flooding, other] = [await newCustomer(slow), await newCustomer(slow)];
    for (const one of [flooding, other]) await one.call('GET', '/clients');
    const end = new AbortController();
    const init = { headers: bearer(flooding.token), signal: end.signal };
    let answered = 0;
    const asked = Array.from({ length: 1400 }, async () => {
      await (await fetch(`${slow.url}/clients`, init)).arrayBuffer();
      answered++;
    });
    // One of them may come ten seconds later.
    const others = await Promise.all([1, 2, 3].map(() => other.call('GET', '/clients')));
    assert.ok(others.some(({ status }) => status === 429));
    assert.ok(answered < asked.length, 'all were answered');
    end.abort();
    await Promise.allSettled(asked);
  });
});
