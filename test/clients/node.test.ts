import assert from 'node:assert/strict';
import { once } from 'node:events';
import {
  type ClientOptions,
  type EnrichmentEvent,
  EnrichmentsClient,
  EventNotAccepted,
} from '../../clients/node/src/client.js';
import { startReceiver, until } from '../receiver.js';
import { afterTest } from '../servers.js';
import { usePublishedTo } from './service.js';

type Fetch = typeof fetch;
interface Call {
  events: EnrichmentEvent[];
  status: number;
}

/** By the clock of an answer that is years behind. */
const oneSecond = {
  date: 'Sun, 06 Nov 1994 08:49:37 GMT',
  'retry-after': 'Sun, 06 Nov 1994 08:49:38 GMT',
};

describe('clients/node', () => {
  const to = usePublishedTo();
  /** The calls of the client under test, in the order of the answers. */
  let calls: Call[];
  let mostUnderWay: number;

  beforeEach(() => {
    calls = [];
    mostUnderWay = 0;
  });

  /** @param answer in the place of the service's answer to a call of events */
  function open(options: Partial<ClientOptions> = {}, answer: Fetch = fetch): EnrichmentsClient {
    let underWay = 0;
    const observed: Fetch = async (url, init) => {
      if (!String(url).endsWith('/enrichments')) return await fetch(url, init);
      mostUnderWay = Math.max(mostUnderWay, ++underWay);
      const call: Call = { ...(JSON.parse(String(init?.body)) as { events: EnrichmentEvent[] }), status: 0 };
      try {
        const response = await answer(url, init);
        call.status = response.status;
        return response;
      } finally {
        calls.push(call);
        underWay--;
      }
    };
    const { client_id: clientId, client_secret: clientSecret } = to.account;
    const own = { url: to.api.url, clientId, clientSecret, fetch: observed };
    const client = new EnrichmentsClient({ ...own, ...options });
    afterTest(() => client.close(0));
    return client;
  }

  const refusal = (code: string) => (err: unknown) => {
    assert.ok(err instanceof EventNotAccepted, String(err));
    assert.equal(err.code, code);
    assert.match(String(err.event.event_id), /^[A-Za-z0-9._:-]+$/);
    return true;
  };

  it('sends events that arrive together in shared calls, at most `concurrency` under way, each event once', async () => {
    const publisher = open({ concurrency: 2, batchSize: 50 });
    const accepted = await Promise.all(to.events(450).map((one) => publisher.send(one)));
    assert.ok(accepted.every(({ notification }) => notification === 'queued'));
    assert.equal(calls.length, 9);
    assert.equal(mostUnderWay, 2);
    assert.ok(calls.every((call) => call.events.length === 50));
    await to.assertEachOnce(450);
  });

  it('repeats a call after 503 until it is accepted, each notification once', async () => {
    const publisher = open({ concurrency: 3, batchSize: 20 });
    await publisher.send(to.event(0));
    to.redis.hang();
    const sent = Promise.all(to.events(100).map((one) => publisher.send(one)));
    await until('each was answered 503', () => calls.filter((c) => c.status === 503).length >= 3);
    to.redis.release();
    await sent;
    assert.equal(publisher.queued, 0);
    await to.assertEachOnce(100);
  });

  it('repeats a call after a lost answer with the same ids, without a second notification', async () => {
    const told: string[] = [];
    const onRetry = (reason: string) => void told.push(reason.replace(to.api.url, ''));
    const publisher = open({ onRetry }, async (url, init) => {
      const response = await fetch(url, init);
      if (calls.length > 0) return response;
      await response.text();
      // As Node says that a proxy refuses.
      const cause = new Error('Request was cancelled.', { cause: new Error('Proxy response (403)') });
      throw new TypeError('fetch failed', { cause });
    });
    await Promise.all(to.events(5).map((one) => publisher.send(one)));
    const statuses = calls.map(({ status }) => status);
    assert.deepEqual(statuses, [0, 202]);
    assert.deepEqual(calls[1]?.events, calls[0]?.events);
    assert.deepEqual(told, [': no answer (Proxy response (403)); 5 events are sent again']);
    await to.assertEachOnce(5);
  });

  for (const [answer, why] of [
    ['hang', 'no answer (nothing within 2000 ms)'],
    [{ status: 503, headers: { 'retry-after': '1' } }, 'status 503, to wait 1 s'],
    [{ status: 503, headers: oneSecond }, 'status 503, to wait 1 s'],
  ] as const) {
    it(`tells why it sends events again: ${why}`, async () => {
      const instead = await startReceiver();
      instead.answer = () => answer;
      const told: string[] = [];
      const onRetry = (reason: string) => {
        told.push(reason);
        throw new Error('its own failure strands no event');
      };
      const publisher = open({ onRetry, timeoutMs: 2000 }, (url, init) =>
        fetch(calls.length > 0 ? url : instead.url, init),
      );
      await publisher.send(to.event(0));
      assert.deepEqual(told, [`${to.api.url}: ${why}; 1 events are sent again`]);
    });
  }

  it('strands no event, and ends no process, where an async onRetry rejects', async () => {
    const onRetry = async () => Promise.reject(new Error('its own failure'));
    const publisher = open({ onRetry }, async (url, init) =>
      calls.length > 0 ? await fetch(url, init) : new Response('', { status: 503 }),
    );
    const warned = once(process, 'warning');
    await publisher.send(to.event(0));
    assert.match(String((await warned)[0]), /onRetry threw: Error: its own failure/);
  });

  it('handles every item: reports refused ones, repeats unknown ones, accepts the rest', async () => {
    const publisher = open({}, async (url, init) => {
      const response = await fetch(url, init);
      if (calls.length > 0) return response;
      const body = (await response.json()) as { results: unknown[] };
      body.results[3] = { event_id: 'an-3', code: 'temporarily_unavailable', msg: 'unknown' };
      body.results[4] = {};
      return Response.json(body, { status: 202 });
    });
    const results = await Promise.allSettled([
      publisher.send(to.event(0)),
      publisher.send(to.event(1, { client_token: 'NOBODY' })),
      publisher.send(to.event(2, { segments: [''] })),
      publisher.send(to.event(3, { event_id: 'an-3' })),
      publisher.send(to.event(4)),
    ]);
    const outcomes = results.map((one) =>
      one.status === 'fulfilled' ? one.value.notification : one.reason.code,
    );
    assert.deepEqual(outcomes, ['queued', 'unknown_client', 'invalid_event', 'queued', 'queued']);
    const sizes = calls.map((call) => call.events.length);
    assert.deepEqual(sizes, [5, 2]);
    await to.assertEachOnce(3);
  });

  for (const status of [302, 403, 404, 413])
    it(`takes a ${status} without a code for that of a proxy, and ${status === 413 ? 'refuses the event' : 'sends the events again'}`, async () => {
      const page = () => new Response('<h1>default backend</h1>', { status });
      const publisher = open({ onRetry: () => {} }, async (url, init) =>
        calls.length > 0 ? await fetch(url, init) : page(),
      );
      const sent = publisher.send(to.event(0));
      if (status === 413) return await assert.rejects(sent, refusal('unexpected_answer'));
      assert.equal((await sent).notification, 'queued');
    });

  for (const [status, body, code] of [
    [413, '<html>', 'unexpected_answer'],
    [400, '{"code":"invalid_json","msg":"m"}', 'invalid_json'],
  ] as const)
    it(`sends events in parts after ${status}, and refuses one alone`, async () => {
      const spoils = ({ platform_id }: EnrichmentEvent) => platform_id === 'video-2';
      const publisher = open({ onRetry: () => {} }, async (url, init) => {
        const { events } = JSON.parse(String(init?.body)) as { events: EnrichmentEvent[] };
        return events.some(spoils) ? new Response(body, { status }) : await fetch(url, init);
      });
      const sent = to.events(5).map((one) => publisher.send(one));
      await assert.rejects(sent.splice(2, 1)[0] ?? Promise.resolve(), refusal(code));
      for (const { notification } of await Promise.all(sent)) assert.equal(notification, 'queued');
    });

  it('refuses all events of a call, without another, where the service gives no token', async () => {
    let asked = 0;
    const refuses: Fetch = async () => {
      asked++;
      return Response.json({ error: 'invalid_scope', error_description: '' }, { status: 400 });
    };
    const publisher = open({ fetch: refuses });
    const sent = to.events(5).map((one) => assert.rejects(publisher.send(one), refusal('invalid_scope')));
    await Promise.all(sent);
    assert.equal(asked, 1);
  });

  it('sends half as many events after 408', async () => {
    const publisher = open({}, (url, init) => {
      const isLong = JSON.parse(String(init?.body)).events.length > 2;
      return isLong ? Promise.resolve(Response.json({}, { status: 408 })) : fetch(url, init);
    });
    await Promise.race([
      Promise.all(to.events(5).map((one) => publisher.send(one))),
      until('a third call', () => calls.length > 2 && calls.every((call) => call.events.length === 5)),
    ]);
    const sizes = calls.map((call) => call.events.length);
    assert.deepEqual(sizes, [5, 3, 2, 2, 1]);
    await to.assertEachOnce(5);
  });

  it('cuts a call below 1 MiB', async () => {
    const segments = Array.from({ length: 200 }, (_, n) => `${n}-`.padEnd(128, '界'));
    const publisher = open();
    await Promise.all(Array.from({ length: 20 }, (_, n) => publisher.send(to.event(n, { segments }))));
    assert.ok(calls.length > 1);
    await to.assertEachOnce(20);
  });

  it('applies back-pressure: ready() waits while maxQueued events wait for their answer', async () => {
    const publisher = open({ maxQueued: 10, concurrency: 1, batchSize: 5 });
    await publisher.send(to.event(0));
    to.redis.hang();
    let sent = 0;
    const done = (async () => {
      const all = [];
      for (const one of to.events(40)) {
        await publisher.ready();
        all.push(publisher.send(one));
        sent++;
      }
      await Promise.all(all);
    })();
    await until('a call was answered 503', () => calls.some((call) => call.status === 503));
    assert.equal(sent, 10);
    assert.equal(publisher.queued, 10);
    to.redis.release();
    await done;
    await to.assertEachOnce(40);
  });

  it('close() sends all waiting events, then accepts no more', async () => {
    const publisher = open();
    const sent = Promise.all(to.events(300).map((one) => publisher.send(one)));
    await publisher.close(Number.POSITIVE_INFINITY);
    await sent;
    await to.assertEachOnce(300);
    await assert.rejects(publisher.send(to.event(1)), refusal('closed'));
    await publisher.ready();
  });

  const useless: Partial<ClientOptions>[] = [
    ...['', 'localhost:3000', 'api.example.com', 'ftp://api.example.com', 'file:///etc/hosts'].map((url) => ({
      url,
    })),
    ...['u:secret@h', 'secret@h', 'h?a=secret', 'h#secret'].map((rest) => ({ url: `https://${rest}` })),
    ...['concurrency', 'batchSize', 'maxQueued', 'timeoutMs'].flatMap((option) =>
      [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY].map((value) => ({ [option]: value })),
    ),
    { batchSize: 501 },
    ...['clientId', 'clientSecret'].flatMap((option) =>
      ['', undefined].map((value) => ({ [option]: value })),
    ),
  ];
  it('refuses options that no call could be made with, by name, and repeats no secret', () => {
    for (const options of useless) {
      const message = new RegExp(`^${Object.keys(options)[0]} must (?!.*secret)`);
      assert.throws(() => open(options), { name: 'RangeError', message }, JSON.stringify(options));
    }
  });
});
