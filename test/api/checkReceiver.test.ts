import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import { portOf } from '../receiver.js';
import { opened } from '../servers.js';
import { type Customer, type Harness, newCustomer, sharedHarness, startHarness } from '../service.js';

interface Check {
  name: string;
  sent: { headers: Record<string, string>; body: string }[];
  answered: { status?: number; milliseconds: number; error?: string }[];
  verdict: string;
  advice: string;
}

interface Arrived {
  headers: Record<string, string>;
  body: string;
  /** In how many pieces the body came. */
  pieces: number;
}

describe('POST /push_notifications/check', () => {
  let h: Harness;
  let customer: Customer;
  let secret: string;
  let server: Server;
  let url: string;
  let arrived: Arrived[];
  /** The receiver's behaviour once it has the body. */
  let answer: (request: Arrived, response: ServerResponse) => void;
  /** Its behaviour once it has the headers. */
  let onHeaders: (request: IncomingMessage, response: ServerResponse) => void;

  before(async () => {
    h = await sharedHarness();
    server = createServer((request, response) => {
      let body = '';
      let pieces = 0;
      onHeaders(request, response);
      request.on('error', () => undefined);
      request.on('data', (chunk: Buffer) => {
        pieces++;
        body += chunk.toString();
      });
      request.on('end', () => {
        const one = { headers: request.headers as Record<string, string>, body, pieces };
        arrived.push(one);
        if (!response.headersSent) answer(one, response);
      });
    });
    url = `http://127.0.0.1:${await portOf(server)}/hook?key=in-query`;
  });
  beforeEach(async () => {
    arrived = [];
    onHeaders = () => undefined;
    answer = verify;
    customer = await newCustomer(h);
    secret = (await call('GET', 'signing_secret')).body.signing_secret as string;
  });
  after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  /** As a receiver should: by a public library. */
  function verify({ headers, body }: Arrived, response: ServerResponse): void {
    try {
      new Webhook(secret).verify(body, headers);
      response.writeHead(204).end();
    } catch {
      response.writeHead(401).end();
    }
  }

  const call = (method: string, what: string, query: Record<string, string> = {}) =>
    customer.call(method, `/push_notifications/${what}?${new URLSearchParams(query)}`.replace('/?', '?'));

  async function check(): Promise<Check[]> {
    const { status, body } = await call('POST', 'check', { url });
    assert.equal(status, 200, JSON.stringify(body));
    return body.checks as Check[];
  }
  const verdicts = (checks: Check[]) =>
    Object.fromEntries(checks.map(({ name, verdict }) => [name, verdict]));
  const allOk = { good: 'ok', wrong_signature: 'ok', old_timestamp: 'ok', twice: 'ok', slow: 'ok' };

  it('finds a receiver that verifies with a public library ok in all five sends, and shows each of them', async () => {
    const checks = await check();
    assert.deepEqual(verdicts(checks), allOk);
    assert.equal(arrived.length, 5);
    assert.deepEqual(
      checks.map(({ name, answered }) => [name, answered.map(({ status }) => status)]),
      [
        ['good', [204]],
        ['wrong_signature', [401]],
        ['old_timestamp', [401]],
        ['twice', [204, 204]],
        ['slow', [204]],
      ],
    );
    for (const { sent, advice } of checks) {
      assert.ok(advice.length > 0);
      for (const { headers, body } of sent) {
        const got = arrived.filter((one) => one.headers['webhook-id'] === headers['webhook-id']);
        assert.ok(got.some((one) => one.headers['webhook-signature'] === headers['webhook-signature']));
        assert.equal(got[0]?.body, body);
      }
    }
    const ids = checks.map(({ sent }) => sent.map(({ headers }) => headers['webhook-id']));
    assert.equal(new Set(ids.flat()).size, 4);
    assert.equal(ids[3]?.[0], ids[3]?.[1]);
    assert.equal(ids[0]?.[0], ids[3]?.[0]);
    const slow = arrived.find(({ headers }) => headers['webhook-id'] === ids[4]?.[0]);
    assert.ok(Number(slow?.pieces) > 1, 'in pieces');
    assert.equal(slow?.headers['content-length'], String(slow?.body.length));
  });

  const seen = new Set<string>();
  const wrong: Record<string, [behave: () => void, failed: Record<string, RegExp>]> = {
    'verifies nothing': [
      () => {
        answer = (_, response) => response.writeHead(200).end();
      },
      { wrong_signature: /webhook-signature/, old_timestamp: /webhook-timestamp/ },
    ],
    'refuses a known webhook-id': [
      () => {
        answer = (one, response) => {
          const id = one.headers['webhook-id'] ?? '';
          if (seen.has(id)) response.writeHead(409).end();
          else verify(one, response);
          seen.add(id);
        };
      },
      { twice: /webhook-id/ },
    ],
    'reads only the first piece of a body, or answers before the body is complete': [
      () => {
        onHeaders = (request, response) =>
          request.once('data', (chunk: Buffer) => {
            if (chunk.length < Number(request.headers['content-length'])) response.writeHead(400).end();
          });
      },
      { slow: /./ },
    ],
  };
  for (const [what, [behave, failed]] of Object.entries(wrong)) {
    it(`fails a receiver that ${what}`, async () => {
      behave();
      const checks = await check();
      const fails = Object.fromEntries(Object.keys(failed).map((name) => [name, 'fail']));
      assert.deepEqual(verdicts(checks), { ...allOk, ...fails });
      for (const { name, advice } of checks) assert.match(advice, failed[name] ?? /./);
      onHeaders = () => undefined;
      answer = verify;
      await customer.forgetSends();
      assert.equal((await call('POST', 'test', { url })).body.status, 204, 'the next one finds a connection');
    });
  }

  it('tells a receiver that answers one request at a time to take several', async () => {
    answer = (one, response) => (arrived.length > 1 ? response.destroy() : verify(one, response));
    const [, , , ...further] = await check();
    for (const { verdict, advice } of further)
      assert.match(`${verdict}: ${advice}`, /^fail: .* without an answer\. Take 16 requests at a time/);
    assert.equal(further.length, 2);
  });

  it('takes 429 for no refusal and no mistake: it says so each time', async () => {
    answer = (one, response) => (arrived.length > 1 ? response.writeHead(429).end() : verify(one, response));
    const [good, ...others] = await check();
    assert.equal(good?.verdict, 'ok');
    assert.deepEqual(
      others.map(({ verdict }) => verdict),
      ['warn', 'warn', 'fail', 'fail'],
    );
    for (const { advice } of others)
      assert.match(advice, /^Your server answers 429\. (?!.*webhook-id|.*pieces)/);
  });

  it('blames no receiver where the service cannot send', async () => {
    const apart = opened(await startHarness({ OUTGOING_PROXY: 'http://127.0.0.1:9' }));
    const { call: ask } = await newCustomer(apart);
    const { status, body } = await ask('POST', `/push_notifications/test?${new URLSearchParams({ url })}`);
    assert.deepEqual([status, body.code], [503, 'temporarily_unavailable']);
    assert.match(String(body.msg), /a problem on its side \(proxy: it cannot be reached\)/);
  });

  it('sends to the registered URL, makes no notification and does not affect the registration', async () => {
    answer = (_, response) => response.writeHead(410).end();
    await customer.register(url);
    const before = await call('GET', '');
    const { status } = await call('POST', 'check');
    assert.deepEqual([status, arrived.length], [200, 5]);
    assert.deepEqual((await call('GET', '')).body, before.body);
    assert.equal(await h.db.redis.exists(h.db.client(customer.client_token).notifications), 0);
  });

  it('sends a test to another URL than the registered one, without the request headers of the client', async () => {
    await customer.call('PUT', '/push_notifications/headers', { headers: { 'x-key': 'gate' } });
    await customer.register(`${url}&now`);
    for (const other of [undefined, `${url}&now`, url]) {
      assert.equal((await call('POST', 'test', other ? { url: other } : {})).body.status, 204);
    }
    assert.deepEqual(
      arrived.map(({ headers }) => headers['x-key']),
      ['gate', 'gate', undefined],
    );
  });

  it('refuses a url in a private network, and answers 400 without a url', async () => {
    const inside = await call('POST', 'check', { url: 'http://10.0.0.1/' });
    assert.deepEqual([inside.status, inside.body.code], [400, 'url_not_public']);
    assert.equal((await call('POST', 'check')).status, 400);
    assert.equal(arrived.length, 0);
  });

  it('counts as five calls that send something, so that the next one must wait', async () => {
    await check();
    for (const what of ['check', 'test']) {
      const refused = await call('POST', what, { url });
      assert.deepEqual([refused.status, refused.body.code], [429, 'too_many_requests']);
    }
    assert.equal(arrived.length, 5);
    await customer.forgetSends();
    await call('POST', 'test', { url });
    const refused = await call('POST', 'check', { url });
    assert.equal(refused.status, 429);
    const seconds = Number(refused.headers.get('retry-after'));
    assert.ok(seconds <= 5);
    assert.match(String(refused.body.msg), new RegExp(`: try again in ${seconds} s$`));
  });
});
