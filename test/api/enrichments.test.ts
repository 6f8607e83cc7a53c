import assert from 'node:assert/strict';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { markAnswered, register } from '../../src/redis/records/registrations.js';
import { startProxy } from '../proxy.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { itWithOneRedis, servers } from '../servers.js';
import { type Harness, newToken, type RunningApi, startApi, startHarness } from '../service.js';

describe('POST /enrichments', () => {
  let h: Harness;
  let api: RunningApi;
  let receiver: Receiver;
  let token: string;
  let client: string;

  before(async () => {
    h = await startHarness({ RETRY_SCHEDULE_SECONDS: '0.2,0.3,0.4,1' });
    await h.startWorker();
    api = await startApi({ prefix: h.db.prefix, env: { TASK_QUEUE: h.taskQueue } });
    receiver = await startReceiver();
    token = await newToken(api, await platform());
  });
  beforeEach(async () => {
    client = await h.newClient(receiver.url);
    receiver.received.length = 0;
    receiver.answer = () => 200;
  });
  after(async () => {
    await receiver.close();
    await api.close();
    await h.close();
  });

  const platform = (scopes = ['enrichments']) => createAccount(h.db, { name: 'The platform', scopes });

  const send = (body: string, headers: Record<string, string> = {}, to = api) =>
    fetch(`${to.url}/enrichments`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
      body,
      // A call that nothing bounds takes 9 to 20 s while Temporal is away: this tells the two apart on a busy machine.
      signal: AbortSignal.timeout(5000),
    });

  type Answer = Record<string, unknown> & { results: Record<string, unknown>[] };

  async function call(body: unknown, to = api): Promise<{ status: number; body: Answer; headers: Headers }> {
    const answer = await send(typeof body === 'string' ? body : JSON.stringify(body), {}, to);
    return { status: answer.status, body: (await answer.json()) as Answer, headers: answer.headers };
  }

  const event = (more: Record<string, unknown> = {}) => ({
    event_id: 'an-7731',
    client_token: client,
    platform_id: 'vid-9',
    segments: ['iab:17', 'mood:calm'],
    ...more,
  });

  async function assertRefused(body: unknown, status: number, code: string, says: RegExp): Promise<void> {
    const answer = await call(body);
    assert.equal(answer.status, status, JSON.stringify(answer.body));
    assert.equal(answer.body.code, code);
    assert.match(String(answer.body.msg), says);
    assert.equal(answer.body.request_id, answer.headers.get('x-request-id'));
  }

  const delivered = (id: unknown) =>
    until(
      `${id} is delivered`,
      async () => (await h.notification(client, String(id)))?.state === 'delivered',
    );

  describe('202', () => {
    it('{"event_id", "notification": "queued", "notification_id"}, which is then delivered', async () => {
      const { status, body } = await call(event());
      assert.equal(status, 202);
      const { notification_id, ...rest } = body;
      assert.deepEqual(rest, { event_id: 'an-7731', notification: 'queued' });
      assert.match(String(notification_id), /^msg_/);
      await delivered(notification_id);
      assert.deepEqual(receiver.idsOf('vid-9'), [notification_id]);
    });

    it('"none", "no_new_segments"', async () => {
      await delivered((await call(event())).body.notification_id);
      const expected = { event_id: 'an-8', notification: 'none', reason: 'no_new_segments' };
      assert.deepEqual((await call(event({ event_id: 'an-8' }))).body, expected);
      const none = await call(event({ event_id: 'an-8', platform_id: 'other', segments: [] }));
      assert.deepEqual(none.body, expected);
    });

    it('"none", "not_registered"', async () => {
      client = await h.newClient();
      const expected = { event_id: 'an-7731', notification: 'none', reason: 'not_registered' };
      assert.deepEqual((await call(event())).body, expected);
    });

    it('"none", "silent": notify is false', async () => {
      const expected = { event_id: 'an-7731', notification: 'none', reason: 'silent' };
      assert.deepEqual((await call(event({ notify: false }))).body, expected);
    });

    it('"held": "paused"', async () => {
      await setPaused(h.db, client, true);
      const { status, body } = await call(event());
      assert.equal(status, 202);
      assert.equal(body.notification, 'queued');
      assert.equal(body.held, 'paused');
      await until(
        'it is owed',
        async () => (await h.notification(client, String(body.notification_id)))?.state === 'waiting',
      );
    });

    it('"held": "suspended"', async () => {
      receiver.answer = () => 410;
      await call(event());
      await until('suspended', async () => (await getEndpoint(h.db, client)).state === 'suspended');
      const { body } = await call(event({ platform_id: 'vid-10' }));
      assert.equal(body.notification, 'queued');
      assert.equal(body.held, 'suspended');
    });

    it('delivers both priorities, live and backfill', async () => {
      for (const priority of ['live', 'backfill']) {
        const { status, body } = await call(event({ platform_id: priority, priority }));
        assert.equal(status, 202);
        await delivered(body.notification_id);
      }
    });

    it('accepts 0 and 200 segments, and the longest names', async () => {
      const segments = Array.from({ length: 200 }, (_, i) => `${i}`.padEnd(128, 'ü'));
      const longest = {
        event_id: 'e'.repeat(128),
        platform_id: 'p'.repeat(256),
        segments,
        client_token: client,
      };
      const { status, body } = await call(longest);
      assert.equal(status, 202);
      await delivered(body.notification_id);
      assert.equal((await call(event({ segments: [] }))).status, 202);
    });

    it('counts a character of two UTF-16 units once', async () => {
      const longest = { platform_id: '🎬'.repeat(256), segments: ['🎬'.repeat(128)] };
      const { status, body } = await call(event(longest));
      assert.equal(status, 202);
      await delivered(body.notification_id);
    });

    it('answers a batch with {"results": [...]} in the order given, with an error in the place of an event that is not accepted', async () => {
      const { status, body } = await call({
        events: [
          event({ event_id: 'e0', platform_id: 'a' }),
          event({ event_id: 'e1', client_token: 'nobody' }),
          event({ event_id: 'e2', platform_id: '' }),
          event({ event_id: 'e3', notify: false, platform_id: 'b' }),
          'not an event',
          event({ event_id: 'e5', platform_id: 'c' }),
        ],
      });
      assert.equal(status, 202);
      assert.deepEqual(
        body.results.map((r) => r.notification ?? r.code),
        ['queued', 'unknown_client', 'invalid_event', 'none', 'invalid_event', 'queued'],
      );
      assert.match(String(body.results[2]?.msg), /^events\[2\]\.platform_id: /);
      assert.match(String(body.results[4]?.msg), /^events\[4\]: /);
      await delivered(body.results[0]?.notification_id);
      await delivered(body.results[5]?.notification_id);
    });

    it('accepts a batch of 500 events', async () => {
      const events = Array.from({ length: 500 }, (_, i) => event({ platform_id: `v${i}` }));
      const { status, body } = await call({ events });
      assert.equal(status, 202);
      assert.equal(body.results.filter((r) => r.notification === 'queued').length, 500);
      await until('all have arrived', () => new Set(receiver.received.map((r) => r.body)).size === 500);
    });
  });

  describe('the same event again never makes a second notification', () => {
    it('20 concurrent calls: one id, one POST', async () => {
      const all = await Promise.all(Array.from({ length: 20 }, () => call(event())));
      assert.deepEqual([...new Set(all.map((a) => a.status))], [202]);
      assert.equal(new Set(all.map((a) => a.body.notification_id)).size, 1);
      await delivered(all[0]?.body.notification_id);
      await noWorkflowRuns();
      assert.equal(receiver.received.length, 1);
    });

    it('after it was delivered, to another process: the same answer, no POST', async () => {
      const first = await call(event());
      await delivered(first.body.notification_id);
      const other = await startApi({ prefix: h.db.prefix, env: { TASK_QUEUE: h.taskQueue } });
      try {
        assert.deepEqual((await call(event(), other)).body, first.body);
      } finally {
        await other.close();
      }
      await noWorkflowRuns();
      assert.equal(receiver.received.length, 1);
    });

    const noWorkflowRuns = () =>
      until('no enrichment runs', async () => {
        const query = `WorkflowType = 'enrichment' AND ExecutionStatus = 'Running' AND TaskQueue = '${h.taskQueue}'`;
        return (await h.temporal.workflow.count(query)).count === 0;
      });
  });

  describe('malformed JSON, a bad field (path named), more than 500 events: 400', () => {
    const malformed: [body: string, says: RegExp][] = [
      ['', /^body: must be an object$/],
      ['"text"', /^body: must be an object$/],
      ['[]', /^body: must be an object$/],
      ['{', /^The body is not JSON: see line 1, column 2$/],
      ['{"event_id":', /^The body is not JSON: it ends too early$/],
      ['\u0000', /^The body is not JSON/],
      [
        '{"event_id": "an-1",\n "priority": live,\n "segments": []}',
        /^The body is not JSON: see line 2, column 14$/,
      ],
      ["{'event_id': 1}", /^The body is not JSON: see line 1, column 2$/],
    ];
    for (const [body, says] of malformed) {
      it(`malformed: ${JSON.stringify(body)}`, () => assertRefused(body, 400, 'invalid_request', says));
    }

    it('names every mistake of an event', () =>
      assertRefused(
        { platformid: 'v', segments: 'a', odd: 1, client_token: client },
        400,
        'invalid_request',
        /^platform_id: is missing; segments: must be a list; body: the member "platformid", "odd" is unknown$/,
      ));

    const bad: [string, Record<string, unknown>, RegExp][] = [
      ['event_id empty', { event_id: '' }, /^event_id: /],
      ['event_id of 129', { event_id: 'e'.repeat(129) }, /^event_id: /],
      ['event_id with a blank', { event_id: 'a b' }, /^event_id: /],
      ['event_id a number', { event_id: 7 }, /^event_id: /],
      ['client_token missing', { client_token: undefined }, /^client_token: /],
      ['client_token with a slash', { client_token: 'a/b' }, /^client_token: /],
      ['platform_id missing', { platform_id: undefined }, /^platform_id: /],
      ['platform_id empty', { platform_id: '' }, /^platform_id: /],
      ['platform_id of 257', { platform_id: 'p'.repeat(257) }, /^platform_id: /],
      ['platform_id with a control character', { platform_id: 'a\u0007b' }, /^platform_id: /],
      ['platform_id with NUL', { platform_id: 'a\u0000' }, /^platform_id: /],
      ['platform_id with a C1 control character', { platform_id: 'a\u0085b' }, /^platform_id: /],
      ['platform_id with a lone surrogate', { platform_id: 'a\ud800' }, /^platform_id: /],
      ['segments missing', { segments: undefined }, /^segments: /],
      ['segments a string', { segments: 'x' }, /^segments: /],
      ['201 segments', { segments: Array.from({ length: 201 }, (_, i) => `s${i}`) }, /^segments: /],
      ['a segment empty', { segments: ['a', ''] }, /^segments\[1\]: /],
      ['a segment of 129', { segments: ['s'.repeat(129)] }, /^segments\[0\]: /],
      ['a segment with a line feed', { segments: ['a\nb'] }, /^segments\[0\]: /],
      ['a segment with a lone surrogate', { segments: ['ok', '\udc00'] }, /^segments\[1\]: /],
      ['platform_id of 257 that take two units each', { platform_id: '🎬'.repeat(257) }, /^platform_id: /],
      ['a segment that is null', { segments: [null] }, /^segments\[0\]: /],
      ['priority unknown', { priority: 'urgent' }, /^priority: /],
      ['notify a string', { notify: 'true' }, /^notify: /],
      ['an unknown field', { segment: [] }, /segment/],
    ];
    for (const [name, more, says] of bad) {
      it(name, () => assertRefused(event(more), 400, 'invalid_request', says));
    }

    it('501 events', () =>
      assertRefused({ events: Array.from({ length: 501 }, () => event()) }, 400, 'invalid_request', /500/));
  });

  it('another content type: 415', async () => {
    const answer = await send(JSON.stringify(event()), { 'content-type': 'text/plain' });
    assert.equal(answer.status, 415);
  });

  describe('unknown client token: 404 unknown_client; in a batch the item', () => {
    it('single', () =>
      assertRefused(event({ client_token: 'nobody' }), 404, 'unknown_client', /client_token/));

    it('an item that was not accepted carries event_id and code', async () => {
      const events = [
        event({ event_id: 'an-1', client_token: 'nobody' }),
        event({ event_id: 'an-2', platform_id: '' }),
        event({ event_id: 'not an id' }),
        { ...event({ client_token: 'nobody' }), event_id: undefined },
        'no event at all',
      ];
      const { body } = await call({ events });
      assert.deepEqual(body.results.map((r) => [r.event_id, r.code]).toSpliced(3, 1), [
        ['an-1', 'unknown_client'],
        ['an-2', 'invalid_event'],
        [null, 'invalid_event'],
        [null, 'invalid_event'],
      ]);
      assert.match(String(body.results[3]?.event_id), /^evt-/);
    });
  });

  it('body over 1 MiB: 413', async () => {
    const answer = await send(`{"events":[${JSON.stringify(event())}]${' '.repeat(1024 * 1024)}}`);
    assert.equal(answer.status, 413);
    const body = (await answer.json()) as Record<string, unknown>;
    assert.deepEqual(Object.keys(body).sort(), ['code', 'msg', 'request_id', 'title', 'type']);
  });

  it('reads a body of 1 MiB', async () => {
    const text = JSON.stringify({ events: [event({ notify: false })] });
    const answer = await send(text.padEnd(1024 * 1024, ' '));
    assert.equal(answer.status, 202);
  });

  it('a token asked for without the scope enrichments, although the account has it: 403', async () => {
    const account = await platform(['enrichments', 'push_notifications']);
    const narrow = await newToken(api, { ...account, scopes: ['push_notifications'] });
    const answer = await send(JSON.stringify(event()), { authorization: `Bearer ${narrow}` });
    assert.equal(answer.status, 403);
  });

  describe('while Temporal or Redis is unavailable', () => {
    async function assertUnknown(answer: Awaited<ReturnType<typeof call>>): Promise<void> {
      assert.equal(answer.status, 503, JSON.stringify(answer.body));
      assert.match(String(answer.headers.get('retry-after')), /^[1-9]\d*$/);
      assert.equal(answer.body.code, 'temporarily_unavailable');
    }

    for (const how of ['does not answer', 'is gone'] as const) {
      it(`Temporal ${how}: accepts events as usual, and a repeated event only once`, async () => {
        const proxy = await startProxy(`tcp://${servers().temporalAddress}`);
        const away = await startApi({
          prefix: h.db.prefix,
          env: { TASK_QUEUE: h.taskQueue },
          temporalAddress: new URL(proxy.url).host,
        });
        try {
          if (how === 'is gone') await proxy.close();
          else proxy.hang();
          const single = await call(event(), away);
          assert.equal(single.status, 202, JSON.stringify(single.body));
          const mixed = await call(
            { events: [event(), event({ platform_id: 'c', notify: false }), event({ platform_id: '' })] },
            away,
          );
          assert.deepEqual(
            mixed.body.results.map((r) => r.notification ?? r.code),
            ['queued', 'none', 'invalid_event'],
          );
          assert.equal((await fetch(`${away.url}/readyz`)).status, 200, 'ready without Temporal');
          // A process with a worker finds what is owed, also where no workflow could be started.
          const again = await call(event());
          assert.equal(again.body.notification_id, single.body.notification_id);
          await delivered(again.body.notification_id);
        } finally {
          if (how === 'does not answer') await proxy.close();
          await away.close();
        }
        assert.equal(new Set(receiver.idsOf('vid-9')).size, 1);
      });

      itWithOneRedis(
        `Redis ${how}: answers 503 with Retry-After, to a single event and a batch`,
        async () => {
          const proxy = await startProxy(servers().redisUrl);
          const away = await startApi({ prefix: h.db.prefix, redisUrl: proxy.url });
          try {
            if (how === 'is gone') await proxy.close();
            else proxy.hang();
            await assertUnknown(await call(event(), away));
            await assertUnknown(await call({ events: [event()] }, away));
          } finally {
            if (how === 'does not answer') await proxy.close();
            await away.close();
          }
        },
      );
    }
  });

  it('accepts events for clients of every account', async () => {
    const owner = await createAccount(h.db, { name: 'Somebody else', scopes: ['push_notifications'] });
    client = `${client}-else`;
    await createClient(h.db, { accountId: owner.account_id, name: 'Site', clientToken: client });
    const stored = await register(h.db, api.deps.secretBox, {
      clientToken: client,
      accountId: owner.account_id,
      url: receiver.url,
    });
    if (stored.outcome === 'stored') await markAnswered(h.db, client, stored.nonce);
    const { body } = await call(event());
    await delivered(body.notification_id);
  });
});
