import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { getRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import { startRawReceiver } from '../outgoing/rawReceiver.js';
import { type Received, type Receiver, startReceiver, verifies, within } from '../receiver.js';
import { forTest, opened } from '../servers.js';
import { newCustomer, startHarness, useShared } from '../service.js';

interface Check {
  name: string;
  sent: { headers: Record<string, string>; body: string }[];
  answered: { status?: number; milliseconds: number; error?: string }[];
  verdict: string;
  advice: string;
}

describe('POST /push_notifications/check', () => {
  const h = useShared();
  const customer = forTest(() => newCustomer(h));
  const receiver = forTest(() => startReceiver());
  let url: string;
  let verify: ReturnType<typeof verifies>;

  beforeEach(async () => {
    url = `${receiver.url}?key=in-query`;
    verify = verifies(String((await call('GET', 'signing_secret')).body.signing_secret));
    receiver.answer = verify;
  });

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
    assert.equal(receiver.received.length, 5);
    const statuses = checks.map(({ answered }) => answered.map(({ status }) => status).join());
    assert.deepEqual(statuses, ['204', '401', '401', '204,204', '204']);
    for (const { sent, advice } of checks) {
      assert.ok(advice.length > 0);
      for (const { headers, body } of sent) {
        const got = receiver.received.filter((one) => one.headers['webhook-id'] === headers['webhook-id']);
        assert.ok(got.some((one) => one.headers['webhook-signature'] === headers['webhook-signature']));
        assert.equal(got[0]?.body, body);
      }
    }
    const ids = checks.map(({ sent }) => sent.map(({ headers }) => headers['webhook-id']));
    assert.equal(new Set(ids.flat()).size, 4);
    assert.equal(ids[3]?.[0], ids[3]?.[1]);
    assert.equal(ids[0]?.[0], ids[3]?.[0]);
    const slow = receiver.received.find(({ headers }) => headers['webhook-id'] === ids[4]?.[0]);
    assert.ok(Number(slow?.pieces) > 1, 'in pieces');
    assert.equal(slow?.headers['content-length'], String(slow?.body.length));
  });

  const isSameAs = (one: Received) => (other: Received) =>
    other.headers['webhook-id'] === one.headers['webhook-id'];
  const wrong: Record<string, [behaves: Partial<Receiver>, failed: Record<string, RegExp>]> = {
    'verifies nothing': [
      { answer: () => 200 },
      { wrong_signature: /webhook-signature.* a default page answers/, old_timestamp: /webhook-timestamp/ },
    ],
    'refuses a known webhook-id': [
      { answer: (one) => (receiver.received.filter(isSameAs(one)).length > 1 ? 409 : verify(one)) },
      { twice: /webhook-id/ },
    ],
    'reads only the first piece of a body, or answers before the body is complete': [
      {
        onHeaders: (request, response) =>
          void request.once('data', (chunk: Buffer) => {
            if (chunk.length < Number(request.headers['content-length'])) response.writeHead(400).end();
          }),
      },
      { slow: /./ },
    ],
  };
  for (const [what, [behaves, failed]] of Object.entries(wrong)) {
    it(`fails a receiver that ${what}`, async () => {
      Object.assign(receiver, behaves);
      const checks = await check();
      const fails = Object.fromEntries(Object.keys(failed).map((name) => [name, 'fail']));
      assert.deepEqual(verdicts(checks), { ...allOk, ...fails });
      for (const { name, advice } of checks) assert.match(advice, failed[name] ?? /./);
      receiver.onHeaders = () => undefined;
      receiver.answer = verify;
      await customer.forgetSends();
      assert.equal((await call('POST', 'test', { url })).body.status, 204, 'the next one finds a connection');
    });
  }

  it('sends `twice` over the connection of `good`, and tells a receiver that leaves bodies unread to read them', async () => {
    const parser = await startRawReceiver({
      onConnection: (socket) => {
        let isNext = false;
        socket.on('data', (bytes) => {
          // The head comes with its body; what is left of that begins the next request.
          socket.write(`HTTP/1.1 ${isNext ? 501 : 204} X\r\nContent-Length: 0\r\n\r\n`);
          isNext = bytes.length > 0;
        });
      },
    });
    const { body } = await call('POST', 'check', { url: parser.url });
    await parser.close();
    assert.equal(parser.accepted(), 4, 'five requests');
    const { answered, verdict, advice } = (body.checks as Check[]).find(
      ({ name }) => name === 'twice',
    ) as Check;
    assert.deepEqual([answered.map(({ status }) => status), verdict], [[204, 501], 'fail']);
    assert.match(advice, /answers 501\. .*read each body to its end before you answer/);
  });

  it('tells a receiver that answers one request at a time to take several', async () => {
    receiver.answer = (one) => (receiver.received.length > 1 ? 'cut' : verify(one));
    const [, , , ...further] = await check();
    for (const { verdict, advice } of further)
      assert.match(`${verdict}: ${advice}`, /^fail: .* without an answer\. Take 16 requests at a time/);
    assert.equal(further.length, 2);
  });

  it('takes 429 for no refusal and no mistake: it says so each time', async () => {
    receiver.answer = (one) => (receiver.received.length > 1 ? 429 : verify(one));
    const [good, ...others] = await check();
    assert.equal(good?.verdict, 'ok');
    const judged = others.map(({ verdict }) => verdict);
    assert.deepEqual(judged, ['warn', 'warn', 'fail', 'fail']);
    for (const { advice } of others)
      assert.match(advice, /^Your server answers 429\. (?!.*webhook-id|.*pieces)/);
  });

  it('blames no receiver where the service cannot send', async () => {
    const apart = opened(await startHarness({ OUTGOING_PROXY: 'http://127.0.0.1:9' }));
    const { call: ask, client_token: client } = await newCustomer(apart);
    for (const path of ['push_notifications/test?', 'register_push_notifications?verify=true&']) {
      const { status, body } = await ask('POST', `/${path}${new URLSearchParams({ url })}`);
      assert.deepEqual([status, body.code], [503, 'temporarily_unavailable'], path);
      assert.match(String(body.msg), /a problem on its side \(proxy: it cannot be reached\)/);
    }
    assert.equal(await getRegistration(apart.db, client), undefined);
  });

  it('leaves nothing behind for the end of the process where no connection is free', async () => {
    const apart = opened(await startHarness({}, 'api', { permit: async () => undefined }));
    const { call: ask } = await newCustomer(apart);
    const ending = () => getEventListeners(apart.apiDeps.closing as AbortSignal, 'abort').length;
    const before = ending();
    const { status } = await ask('POST', `/push_notifications/check?${new URLSearchParams({ url })}`);
    assert.deepEqual([status, ending()], [503, before]);
  });

  it('sends to the registered URL, makes no notification and does not affect the registration', async () => {
    receiver.answer = () => 410;
    await customer.register(url);
    // With nothing owed all has arrived until now.
    const registration = async () => ({ ...(await call('GET', '')).body, delivered_until: undefined });
    const before = await registration();
    const { status } = await call('POST', 'check');
    assert.deepEqual([status, receiver.received.length], [200, 5]);
    assert.deepEqual(await registration(), before);
    assert.equal(await h.db.redis.exists(h.db.client(customer.client_token).notifications), 0);
  });

  it('refuses a url in a private network, and answers 400 without a url', async () => {
    const inside = await call('POST', 'check', { url: 'http://10.0.0.1/' });
    assert.deepEqual([inside.status, inside.body.code], [400, 'url_not_public']);
    assert.equal((await call('POST', 'check')).status, 400);
    assert.equal(receiver.received.length, 0);
  });

  it('counts as five of the eight calls at once that send something: a test, a check and a verified registration may follow one another', async () => {
    const stored = `/register_push_notifications?${new URLSearchParams({ url, verify: 'true' })}`;
    await within(5_000, async () => {
      await Promise.all([customer.forgetSends(), resetRegistration(h.db, customer.client_token)]);
      receiver.received.length = 0;
      await call('POST', 'test', { url });
      await check();
      assert.equal((await customer.call('POST', stored)).status, 200);
      for (const what of ['check', 'test']) {
        const refused = await call('POST', what, { url });
        assert.deepEqual([refused.status, refused.body.code], [429, 'too_many_requests']);
        assert.match(String(refused.body.msg), /for this client that send something/);
      }
      assert.equal(receiver.received.length, 8);
    });
    const refused = await within(5_000, async () => {
      await customer.forgetSends();
      for (let i = 0; i < 4; i++) await call('POST', 'test', { url });
      const refused = await call('POST', 'check', { url });
      assert.equal(refused.status, 429);
      return refused;
    });
    const seconds = Number(refused.headers.get('retry-after'));
    assert.ok(seconds <= 5);
    assert.match(String(refused.body.msg), new RegExp(`: try again in ${seconds} s$`));
  });
});
