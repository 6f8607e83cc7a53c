import assert from 'node:assert/strict';
import { setTimeout as pass } from 'node:timers/promises';
import { createSender, type Place, type Sender, type SenderSettings } from '../../src/outgoing/post.js';
import { loopbackNames } from './namesBy.js';
import { loopbackPolicy, type RawReceiver, startRawReceiver, until } from './rawReceiver.js';

const noContent = 'HTTP/1.1 204 No Content\r\n\r\n';
const request = { headers: { 'webhook-id': 'n-1' }, body: '{}' };

describe('a place for a post', () => {
  const open: { close(): Promise<unknown> }[] = [];

  afterEach(async () => {
    for (const one of open.splice(0).reverse()) await one.close();
  });

  const start = async (answer = (s: { write(text: string): unknown }) => s.write(noContent)) => {
    const receiver = await startRawReceiver({ answer });
    open.push(receiver);
    return receiver;
  };

  const sending = (settings: Partial<SenderSettings> = {}): Sender => {
    const sender = createSender({
      policy: loopbackPolicy,
      timeoutMs: 20_000,
      names: loopbackNames,
      ...settings,
    });
    open.push(sender);
    return sender;
  };

  /** Takes places and posts, and notes in which order the clients got theirs. */
  const queue = async (sender: Sender, url: string, client: string, count: number, order: string[]) => {
    await Promise.all(
      Array.from({ length: count }, async () => {
        const place = await sender.place(url, client);
        order.push(client);
        assert.equal((await place.post(request)).ok, true);
      }),
    );
  };

  it('goes to the clients of an origin in turn, for any number that one of them has waiting', async () => {
    const receiver = await start();
    const sender = sending({ connectionsPerOrigin: 4 });
    const held = await Promise.all([1, 2, 3, 4].map(() => sender.place(receiver.url, 'MANY')));
    const order: string[] = [];
    const many = queue(sender, receiver.url, 'MANY', 200, order);
    const few = queue(sender, receiver.url, 'FEW', 5, order);
    await until(() => sender.waiting() === 205);
    for (const place of held) place.release();
    await Promise.all([many, few]);
    assert.deepEqual(order.slice(0, 10), Array(5).fill(['MANY', 'FEW']).flat());
    assert.equal(order.length, 205);
    assert.ok(receiver.accepted() <= 4);
    assert.equal(sender.waiting(), 0);
  });

  it('is waited for outside the time of the attempt', async () => {
    const receiver = await start();
    const timeoutMs = 2_000;
    const sender = sending({ connectionsPerOrigin: 1, timeoutMs });
    const held = await sender.place(receiver.url, 'SLOW');
    const beganMs = performance.now();
    const posting = sender.post({ url: receiver.url, client: 'NEXT', ...request });
    await pass(timeoutMs + 500);
    assert.equal(sender.waiting(), 1);
    assert.equal(sender.inFlight(), 0);
    const waitedMs = performance.now() - beganMs;
    held.release();
    const { ok, milliseconds } = await posting;
    assert.equal(ok, true);
    assert.ok(milliseconds <= performance.now() - beganMs - waitedMs + 1);
  });

  it('can be given back unused, once, and then cannot be used', async () => {
    const receiver = await start();
    const sender = sending({ connectionsPerOrigin: 1 });
    const place = await sender.place(receiver.url, 'A');
    place.release();
    place.release();
    await assert.rejects(place.post(request), /for one POST/);
    const next = await sender.place(receiver.url, 'B');
    assert.equal((await next.post(request)).ok, true);
    next.release();
    await assert.rejects(next.post(request), /for one POST/);
    assert.equal(receiver.accepted(), 1);
    const third = sender.place(receiver.url, 'C');
    const fourth = sender.place(receiver.url, 'D');
    (await third).release();
    (await fourth).release();
  });

  it('reopens a connection that the receiver closed while the place was held', async () => {
    const receiver = await startRawReceiver({
      answer: (s, count) => (count === 1 ? s.end(noContent) : s.write(noContent)),
    });
    open.push(receiver);
    const sender = sending({ connectionsPerOrigin: 1 });
    const first = sender.post({ url: receiver.url, client: 'A', ...request });
    const place = await sender.place(receiver.url, 'A');
    assert.equal((await first).ok, true);
    await until(() => receiver.open() === 0);
    assert.equal((await place.post(request)).ok, true);
    assert.equal(receiver.accepted(), 2);
  });

  it('is no longer waited for, or is given back, when its signal aborts', async () => {
    const receiver = await start();
    const sender = sending({ connectionsPerOrigin: 1 });
    const reason = new Error('cancelled');
    const ofHeld = new AbortController();
    const ofWaiting = new AbortController();
    const held = await sender.place(receiver.url, 'A', ofHeld.signal);
    const waiting = sender.place(receiver.url, 'B', ofWaiting.signal);
    const patient = sender.place(receiver.url, 'C');
    ofWaiting.abort(reason);
    await assert.rejects(waiting, reason);
    ofHeld.abort(reason);
    await assert.rejects(held.post(request), reason);
    await assert.rejects(sender.place(receiver.url, 'D', ofHeld.signal), reason);
    assert.equal((await (await patient).post(request)).ok, true);
    assert.equal(sender.waiting(), 0);
  });

  it('keeps a sender from closing until it is posted or given back', async () => {
    const receiver = await start();
    const sender = sending({ connectionsPerOrigin: 1 });
    const held = await sender.place(receiver.url, 'A');
    const waiting = sender.place(receiver.url, 'B');
    const closing = sender.close();
    assert.equal(
      (await sender.post({ url: receiver.url, client: 'C', ...request })).detail,
      'the sender is closed',
    );
    assert.equal((await held.post(request)).ok, true);
    (await waiting).release();
    await closing;
    await until(() => receiver.open() === 0);
  });

  it('closes idle connections, even if the receiver would keep them longer', async () => {
    const keeps = 'HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=600\r\n\r\n';
    const receiver = await start((socket) => socket.write(keeps));
    const sender = sending();
    const post = () => sender.post({ url: receiver.url, client: 'A', ...request });
    await Promise.all([post(), post(), post()]);
    assert.equal(receiver.open(), 3);
    await until(() => receiver.open() === 0);
    assert.equal((await post()).ok, true);
    assert.equal(receiver.accepted(), 4);
  });

  describe('when the sockets of the process are used up', () => {
    const startThree = (): Promise<RawReceiver[]> => Promise.all([start(), start(), start()]);

    it('closes the connection that has been idle longest', async () => {
      const [a, b, c] = (await startThree()) as [RawReceiver, RawReceiver, RawReceiver];
      const sender = sending({ maxSockets: 2 });
      for (const { url } of [a, b, c]) {
        assert.equal((await sender.post({ url, client: 'A', ...request })).ok, true);
      }
      await until(() => a.open() === 0);
      assert.equal(b.open() + c.open(), 2);
      await sender.post({ url: b.url, client: 'A', ...request });
      assert.equal(b.accepted(), 1);
    });

    it('waits if none is idle', async () => {
      const [a, b, c] = (await startThree()) as [RawReceiver, RawReceiver, RawReceiver];
      const sender = sending({ maxSockets: 2 });
      const held = [await sender.place(a.url, 'A'), await sender.place(b.url, 'B')] as [Place, Place];
      const posting = sender.post({ url: c.url, client: 'C', ...request });
      assert.equal(sender.waiting(), 1);
      held[0].release();
      assert.equal((await posting).ok, true);
      held[1].release();
      assert.equal(sender.waiting(), 0);
    });

    it('lets the origins take turns, also the one whose connection becomes free', async () => {
      const [a, b] = (await startThree()) as [RawReceiver, RawReceiver, RawReceiver];
      const sender = sending({ maxSockets: 1 });
      const held = await sender.place(a.url, 'A');
      const order: string[] = [];
      const many = queue(sender, a.url, 'A', 10, order);
      const few = queue(sender, b.url, 'B', 2, order);
      await until(() => sender.waiting() === 12);
      held.release();
      await Promise.all([many, few]);
      assert.deepEqual(order.slice(0, 4), ['A', 'B', 'A', 'B']);
      assert.equal(order.length, 12);
    });
  });
});
