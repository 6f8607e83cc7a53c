import assert from 'node:assert/strict';
import { until } from '../receiver.js';
import { type Json, newCustomer } from '../service.js';
import { publisherScene } from './publisherScene.js';

describe('why something was or was not sent', () => {
  const { h, customer, call, read, register, publish, delivered, pause } = publisherScene();

  it('GET /assets takes any id in the query as in the path, and names a known one that looks alike', async () => {
    const asset = (id: string) => `/assets?platform_id=${encodeURIComponent(id)}`;
    for (const id of ['..', '.', 'x/../y', 'a%2Fb', 'a b', 'é', '\ufeffcsv', 'cafe\u0301']) {
      await publish(id);
      assert.equal((await read(asset(id))).platform_id, id);
    }
    assert.equal((await call('GET', '/assets/x?platform_id=x')).status, 400);
    const alike = { ' a b ': '"a b"', 'a\u00a0b': '"a b"', csv: '"\\ufeffcsv"', caf\u00e9: '"cafe\\u0301"' };
    for (const [given, known] of Object.entries({ ...alike, 'e\u0301': '"\\u00e9"' })) {
      const { msg, code } = await read(asset(given));
      assert.equal(code, 'unknown_asset');
      assert.ok(String(msg).includes(`compared byte for byte: ${known} is known`), String(msg));
    }
    assert.doesNotMatch(String((await read(asset('csw'))).msg), /byte/);
  });

  it('GET /assets/{platform_id} says why something was or was not sent', async () => {
    assert.equal((await read('/assets/a%2Fb')).code, 'unknown_asset');
    await publish('a/b');
    assert.equal(((await read('/assets/a%2Fb')).last_event as Json).decision, 'not_registered');
    await register();
    await delivered('a/b');
    const after = await read('/assets/a%2Fb');
    assert.equal((after.last_event as Json).decision, 'queued');
    assert.equal((after.last_notification as Json).state, 'delivered');
    for (const [notify, decision] of [
      [false, 'silent'],
      [true, 'no_new_segments'],
    ] as const) {
      await h.publish({ client: customer.client_token, asset: 'a/b', segments: ['quiet'], notify });
      assert.equal(((await read('/assets/a%2Fb')).last_event as Json).decision, decision);
    }
  });

  describe('GET /events/{event_id}', () => {
    it('answers the newest notification that the event made: to the customer, and to the platform for any client, like GET /assets/{platform_id}', async () => {
      await register();
      const id = await delivered('vid-1', 'an-7731:1');
      const { accepted_at: accepted, ended_at: ended, ...rest } = await read('/events/an-7731:1');
      assert.ok(Date.parse(String(accepted)) <= Date.parse(String(ended)));
      assert.deepEqual(rest, {
        event_id: 'an-7731:1',
        notification_id: id,
        platform_id: 'vid-1',
        state: 'delivered',
        priority: 'live',
      });
      const paths = ['/events/an-7731:1', '/assets/vid-1'];
      const answers = async () =>
        (await Promise.all(paths.map((path) => call('GET', path)))).map(({ status, body }) => [status, body]);
      const toCustomer = await answers();
      customer.token = (await newCustomer(h, ['enrichments'])).token;
      assert.deepEqual(await answers(), toCustomer);
      assert.equal((await read('/events/an-2')).code, 'unknown_event');
      assert.equal((await read('/notifications')).code, 'unknown_client');
    });

    it('names the notification that superseded it; for two assets with the same event id answers the newer notification', async () => {
      await register();
      await pause(true);
      await publish('vid-1', 'an-1');
      const second = await publish('vid-1', 'an-2');
      const event = await read('/events/an-1');
      assert.deepEqual([event.state, event.superseded_by], ['superseded', second]);
      assert.equal((await read('/events/an-2')).waiting_reason, 'paused');
      await until('a later millisecond', () => Date.now() > Date.parse(String(event.accepted_at)) + 1);
      const other = await publish('vid-2', 'an-1');
      assert.equal((await read('/events/an-1')).notification_id, other);
    });

    it('answers 404 unknown_event, with the times of retention, when it made none or does not exist', async () => {
      await register();
      await publish('vid-1', 'an-1', ['x']);
      await publish('vid-1', 'an-2', ['x']);
      for (const id of ['an-2', 'an-3']) {
        const { status, body } = await call('GET', `/events/${id}`);
        assert.deepEqual([status, body.code], [404, 'unknown_event'], id);
        assert.match(String(body.msg), /10,000.*14 days.*GET \/assets/);
      }
    });
  });
});
