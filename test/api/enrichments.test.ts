import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { getEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { startReceiver, until } from '../receiver.js';
import { forSuite, opened } from '../servers.js';
import { newCustomer, startHarness, useShared } from '../service.js';

describe('POST /enrichments', () => {
  const h = useShared();
  const receiver = forSuite(() => startReceiver());
  const platform = forSuite(() => newCustomer(h, ['enrichments']));
  let client: string;

  beforeEach(async () => {
    client = await h.newClient(receiver.url);
    receiver.received.length = 0;
    receiver.answer = () => 200;
  });

  type Answer = Record<string, unknown> & { results: Record<string, unknown>[] };

  async function call(body: unknown, to = h) {
    const answer = await platform.call('POST', '/enrichments', body, to);
    return { ...answer, body: answer.body as Answer };
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
  }

  const delivered = (id: unknown) => h.delivered(client, String(id));

  describe('202', () => {
    it('{"event_id", "notification": "queued", "notification_id"}, which is then delivered; sent again, to any process, the same answer and no POST', async () => {
      const first = await call(event());
      assert.equal(first.status, 202);
      const { notification_id, ...rest } = first.body;
      assert.deepEqual(rest, { event_id: 'an-7731', notification: 'queued' });
      assert.match(String(notification_id), /^msg_/);
      await delivered(notification_id);
      const other = opened(await startHarness({ KEY_PREFIX: h.prefix }, 'api'));
      assert.deepEqual((await call(event(), other)).body, first.body);
      await delivered((await call(event({ platform_id: 'next' }))).body.notification_id);
      assert.deepEqual(receiver.idsOf('vid-9'), [notification_id]);
    });

    for (const [reason, given] of [
      ['no_new_segments', { segments: [] }],
      ['silent', { notify: false }],
      ['not_registered', {}],
    ] as const) {
      it(`"none", "${reason}"`, async () => {
        if (reason === 'not_registered') client = await h.newClient();
        const { status, body } = await call(event(given));
        assert.equal(status, 202);
        assert.deepEqual(body, { event_id: 'an-7731', notification: 'none', reason });
      });
    }

    it('"held": "paused", or "suspended"', async () => {
      receiver.answer = () => 410;
      await call(event());
      await until('suspended', async () => (await getEndpoint(h.db, client)).state === 'suspended');
      const next = await call(event({ platform_id: 'vid-10' }));
      assert.deepEqual([next.body.notification, next.body.held], ['queued', 'suspended']);
      await setPaused(h.db, client, true);
      const { body } = await call(event({ platform_id: 'vid-11' }));
      assert.deepEqual([body.notification, body.held], ['queued', 'paused']);
    });

    it('accepts both priorities, 200 segments and the longest names, whose characters of two UTF-16 units count once', async () => {
      const segments = Array.from({ length: 200 }, (_, i) => `${i}`.padEnd(128, 'ü'));
      const backfill = { priority: 'backfill', event_id: 'e'.repeat(128), segments };
      const live = { priority: 'live', platform_id: '🎬'.repeat(256), segments: ['🎬'.repeat(128)] };
      for (const given of [backfill, live]) {
        const { status, body } = await call(event(given));
        assert.equal(status, 202);
        await delivered(body.notification_id);
      }
    });

    it('answers a batch with {"results": [...]} in the order given, with an error in the place of an event that is not accepted', async () => {
      const { status, body } = await call({
        events: [
          event({ event_id: 'e0', platform_id: 'a' }),
          event({ event_id: 'e1', client_token: 'nobody' }),
          event({ event_id: 'e2', platform_id: '' }),
          event({ event_id: undefined, notify: false, platform_id: 'b' }),
          'not an event',
          event({ event_id: 'not an id' }),
          event({ event_id: 'e6', platform_id: 'c' }),
          event({ event_id: undefined, client_token: 'nobody' }),
        ],
      });
      assert.equal(status, 202);
      const { results } = body;
      assert.match(String(results[3]?.event_id), /^evt-/);
      const answers = results.map((r) => [r.event_id, r.notification ?? r.code]);
      assert.deepEqual(answers, [
        ['e0', 'queued'],
        ['e1', 'unknown_client'],
        ['e2', 'invalid_event'],
        [results[3]?.event_id, 'none'],
        [null, 'invalid_event'],
        [null, 'invalid_event'],
        ['e6', 'queued'],
        [null, 'unknown_client'],
      ]);
      assert.match(String(results[2]?.msg), /^events\[2\]\.platform_id: /);
      assert.match(String(results[4]?.msg), /^events\[4\]: /);
      for (const i of [0, 6]) await delivered(results[i]?.notification_id);
    });

    it('answers the other events of a batch although the keys of one client are broken, and 500 where there are no others', async () => {
      const broken = await h.newClient();
      await h.db.redis.del(h.db.client(broken).registration);
      await h.db.redis.lpush(h.db.client(broken).registration, 'a list');
      const its = event({ client_token: broken });
      const { status, body } = await call({ events: [its, event({ platform_id: 'beside' })] });
      assert.deepEqual([status, body.results[0]?.code], [202, 'temporarily_unavailable']);
      await delivered(body.results[1]?.notification_id);
      assert.equal((await call({ events: [its] })).status, 500);
    });

    it('answers a silent event and the same one aloud each for itself, in any order, also in one batch', async () => {
      const [aloud, silent] = [event(), event({ notify: false })];
      const other = { platform_id: 'other' };
      const { body } = await call({
        events: [aloud, silent, aloud, silent, { ...silent, ...other }, { ...aloud, ...other }],
      });
      const answers = body.results.map((one) => one.reason ?? one.notification);
      assert.deepEqual(answers, ['queued', 'silent', 'queued', 'silent', 'silent', 'no_new_segments']);
      await delivered(body.results[2]?.notification_id);
    });

    it('accepts a batch of 500 events', async () => {
      const events = Array.from({ length: 500 }, (_, i) => event({ platform_id: `v${i}`, notify: false }));
      // A busy machine does not accept all at once; repeating them is safe.
      await until('all are accepted', async () =>
        (await call({ events })).body.results.every((r) => r.reason === 'silent'),
      );
    });

    it('reads a body of 1 MiB, with a byte order mark, gzip under each of its names, and a Content-Encoding with empty members', async () => {
      const silent = JSON.stringify(event({ notify: false }));
      for (const body of [silent.padEnd(1024 * 1024, ' '), `\ufeff${silent}`])
        assert.equal((await call(body)).status, 202);
      for (const name of ['gzip', 'GZIP', 'x-gzip', ' X-GZip', 'gzip,', ', gzip ,,', 'identity', '', ',']) {
        const answer = await fetch(`${h.url}/enrichments`, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${platform.token}`,
            'content-type': 'Application/JSON; charset="UTF-8"',
            'content-encoding': name,
          },
          body: /gzip/i.test(name) ? gzipSync(silent) : silent,
        });
        assert.equal(answer.status, 202, name);
      }
    });
  });

  describe('malformed JSON, a bad field (path named), more than 500 events: 400', () => {
    // Of no body and of malformed JSON every call says what is wrong: mistakes.test.ts.
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
      ['client_token missing', { client_token: undefined }, /^client_token: /],
      ['client_token with a slash', { client_token: 'a/b' }, /^client_token: /],
      ['platform_id empty', { platform_id: '' }, /^platform_id: /],
      ['platform_id with a control character', { platform_id: 'a\u0007b' }, /^platform_id: /],
      ['platform_id with a lone surrogate', { platform_id: 'a\ud800' }, /^platform_id: .* surrogate/],
      ['segments missing', { segments: undefined }, /^segments: /],
      ['201 segments', { segments: Array.from({ length: 201 }, (_, i) => `s${i}`) }, /^segments: /],
      ['a segment empty', { segments: ['a', ''] }, /^segments\[1\]: /],
      ['a segment of 129', { segments: ['s'.repeat(129)] }, /^segments\[0\]: /],
      ['a segment with a line feed', { segments: ['a\nb'] }, /^segments\[0\]: /],
      ['platform_id of 257 that take two units each', { platform_id: '🎬'.repeat(257) }, /^platform_id: /],
      ['priority unknown', { priority: 'urgent' }, /^priority: /],
      ['notify a string', { notify: 'true' }, /^notify: /],
      ['event_id null', { event_id: null }, /^event_id: must be a string, or leave it out$/],
      ['priority null', { priority: null }, /^priority: must be live or backfill, or leave it out$/],
      ['platform_id null', { platform_id: null }, /^platform_id: must be a string$/],
      ['an unknown field', { segment: [] }, /segment/],
    ];
    for (const [name, more, says] of bad) {
      it(name, () => assertRefused(event(more), 400, 'invalid_request', says));
    }

    it('501 events', () =>
      assertRefused({ events: Array.from({ length: 501 }, () => event()) }, 400, 'invalid_request', /500/));
  });
});
