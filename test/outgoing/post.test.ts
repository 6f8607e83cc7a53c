import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { setTimeout as pass } from 'node:timers/promises';
import type { TLSSocket } from 'node:tls';
import { Webhook } from 'standardwebhooks';
import { Connection } from '../../src/outgoing/connection.js';
import { notificationRequest, userAgent } from '../../src/outgoing/notification.js';
import type { Permit, Sender } from '../../src/outgoing/post.js';
import { Reach } from '../../src/outgoing/reach.js';
import { newSigningSecret } from '../../src/redis/records/secrets.js';
import { startGate } from '../receiver.js';
import { loopbackNames } from './dnsServer.js';
import { loopbackPolicy, noContent, requestTo, until, useNetwork } from './rawReceiver.js';

const permitOf = async (sender: Sender, url: string, client: string): Promise<Permit> =>
  (await sender.permit(url, client, Infinity)) as Permit;

describe('outgoing post', () => {
  const { start, startQuick, sending } = useNetwork();

  const assertSent = async (sender: Sender, ...[request]: Parameters<Sender['post']>) =>
    assert.equal((await sender.post(request)).ok, true);

  it('sends exactly the headers of the contract and the body that was made, and its signature verifies', async () => {
    const receiver = await startQuick();
    const secret = newSigningSecret();
    const { headers, body } = notificationRequest(
      { notificationId: 'n-1', clientToken: 'SITE0042', platformId: 'vidéo 9' },
      [secret],
      Date.now(),
    );
    const result = await sending().post({ url: receiver.url, client: 'SITE0042', headers, body });
    assert.equal(result.ok, true);
    const [head = '', received = ''] = receiver.received().split('\r\n\r\n');
    const lines = head.split('\r\n');
    assert.equal(lines[0], 'POST /hook?key=hidden-in-query HTTP/1.1');
    const names = lines.slice(1).map((line) => line.slice(0, line.indexOf(':')));
    assert.deepEqual(names, [
      'Host',
      'Connection',
      'Content-Type',
      'accept',
      'user-agent',
      'webhook-id',
      'webhook-timestamp',
      'webhook-signature',
      'webhook-client-token',
      'webhook-updated-at',
      'webhook-attempt',
      'Content-Length',
    ]);
    assert.ok(lines.includes(`user-agent: ${userAgent}`) && lines.includes('Content-Type: application/json'));
    assert.equal(received, body);
    const sent = Object.fromEntries(lines.slice(1).map((line) => line.split(': ') as [string, string]));
    assert.deepEqual(new Webhook(secret).verify(received, sent), JSON.parse(body));
  });

  it('rejects if the service itself fails while it ends an attempt, and holds nothing', async () => {
    const receiver = await start({ answer: () => undefined });
    const reach = Object.assign(new Reach(), { isLost: () => Promise.reject(new Error('of ours')) });
    const sender = sending({ timeoutMs: 100, connectionsPerOrigin: 1, reach });
    for (let i = 0; i < 2; i++) await assert.rejects(sender.post(requestTo(receiver.url)), /of ours/);
    assert.equal(sender.inFlight(), 0);
    await sender.close();
  });

  it('sends no header that would split the request, over a new connection or one that was used', async () => {
    const receiver = await startQuick();
    const sender = sending({ connectionsPerOrigin: 1 });
    const split = { ...requestTo(receiver.url), headers: { 'webhook-id': 'a\r\nx: y' } };
    for (const sent of [0, 1]) {
      const { error, detail } = await sender.post(split);
      assert.deepEqual([error, detail], ['protocol', 'request_invalid']);
      assert.equal(receiver.received().split('POST ').length - 1, sent);
      await assertSent(sender, requestTo(receiver.url));
    }
  });

  it('begins nothing once a name is answered after the attempt', async () => {
    const gate = startGate();
    const names = { ...loopbackNames, lookup: () => gate.closed.then(() => loopbackNames.lookup('')) };
    const begun: string[] = [];
    const events = Object.fromEntries(
      ['onLookedUp', 'onUnanswered', 'onAnswered', 'onClosed'].map((name) => [name, () => begun.push(name)]),
    );
    const to = { name: 'http://a', host: 'a', port: 9, secure: false, lesson: { failedAtMs: new Map() } };
    const guard = { policy: loopbackPolicy, names, hasRoute: async () => true, reach: new Reach() };
    const connection = new Connection(to, guard, events as never);
    const sent = connection.send({ path: '/', headers: {}, body: '' }, {} as never);
    connection.destroy();
    gate.open();
    await sent;
    assert.deepEqual(begun, []);
  });

  it('says in the TLS handshake which name it wants, but no address', async () => {
    const wanted: unknown[] = [];
    const answer = (s: Socket) => {
      wanted.push((s as TLSSocket & { servername: unknown }).servername);
      s.write(noContent);
    };
    const { url, port } = await start({ tls: true, answer });
    const sender = sending({ names: loopbackNames });
    for (const one of [`https://receiver.example:${port}/`, url]) await assertSent(sender, requestTo(one));
    assert.deepEqual(wanted, ['receiver.example', false]);
  });

  it('resumes the TLS session of a connection beside it', async () => {
    const resumed: boolean[] = [];
    const answer = (s: Socket) => {
      resumed.push((s as TLSSocket).isSessionReused());
      s.write(noContent);
    };
    const receiver = await start({ tls: true, answer });
    const sender = sending();
    const post = () => assertSent(sender, requestTo(receiver.url));
    await post();
    await Promise.all([post(), post()]);
    assert.deepEqual(resumed.sort(), [false, false, true]);
  });

  type LateEnd = [string, (s: Socket) => unknown, error: string, accepted?: number];
  const lateEnds: LateEnd[] = [
    ['replaces a connection that was used once, not for ever', (s) => s.end(), 'protocol'],
    ['replaces it once, if it waited for too long', (s) => s.end('HTTP/1.1 408 Late\r\n\r\n'), 'http_status'],
    ['does not send again after a byte of an answer', (s) => s.end('HTTP/1.1 2'), 'protocol', 1],
  ];
  for (const [title, end, error, accepted = 2] of lateEnds) {
    it(title, async () => {
      const receiver = await start({ answer: (s, n) => (n > 1 ? end(s) : s.write(noContent)) });
      const sender = sending();
      await assertSent(sender, requestTo(receiver.url));
      assert.equal((await sender.post(requestTo(receiver.url))).error, error);
      assert.equal(receiver.accepted(), accepted);
    });
  }

  it('ends earlier where its caller waits for less, and says in which phase', async () => {
    const { url } = await start({ answer: () => undefined });
    const { headers, body } = requestTo(url);
    const permit = await permitOf(sending(), url, 'A');
    const { error, detail } = await permit.post({ headers, body }, 50);
    assert.deepEqual([error, detail], ['timeout', 'during_answer']);
  });

  it('sends a body that comes as a stream whole again where it replaces a connection', async () => {
    const receiver = await start({ answer: (s, count) => (count === 2 ? s.destroy() : s.write(noContent)) });
    const sender = sending();
    await assertSent(sender, requestTo(receiver.url));
    const { url, client, headers, body } = requestTo(receiver.url);
    let made = 0;
    const permit = await permitOf(sender, url, client);
    const result = await permit.post({
      headers: { ...headers, 'content-type': 'text/plain', 'content-length': String(body.length) },
      body: () => {
        made++;
        return Readable.from([body.slice(0, 3), body.slice(3)], { objectMode: false });
      },
    });
    assert.deepEqual([result.ok, made], [true, 2]);
    const received = receiver.received();
    assert.ok(received.endsWith(`\r\n\r\n${body}`));
    // A parser may know a name in one case only.
    const names = received.slice(received.lastIndexOf('POST ')).match(/^[\w-]+(?=:)/gm) ?? [];
    for (const name of ['Host', 'Connection', 'Content-Type', 'Content-Length'])
      assert.deepEqual(
        names.filter((one) => one.toLowerCase() === name.toLowerCase()),
        [name],
      );
  });

  it('replaces a kept connection that the receiver closes in the moment of its next use, and keeps nothing of it, however many', async () => {
    const receiver = await start({ answer: (s, count) => (count % 2 ? s.write(noContent) : s.destroy()) });
    const sender = sending();
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on('warning', onWarning);
    for (let i = 0; i < 20; i++) await assertSent(sender, requestTo(receiver.url));
    process.off('warning', onWarning);
    assert.deepEqual([receiver.accepted(), warnings], [20, []]);
  });

  it('finds out that a resting connection was closed, and opens another', async () => {
    const receiver = await start({ answer: (s) => s.end(noContent) });
    const sender = sending();
    for (let i = 0; i < 3; i++) {
      await assertSent(sender, requestTo(receiver.url));
      await until(() => receiver.open() === 0);
    }
    assert.equal(receiver.accepted(), 3);
  });

  it('does not let a silent origin hold up another', async () => {
    const silent = await start({});
    const quick = await startQuick();
    const sender = sending({ connectionsPerOrigin: 1, timeoutMs: 1500 });
    const { url, client } = requestTo(silent.url);
    const stuck = sender.post(requestTo(silent.url));
    const from = performance.now();
    const waiting = Array.from({ length: 4 }, () => sender.permit(url, client, 500));
    for (let i = 0; i < 5; i++) await assertSent(sender, requestTo(quick.url));
    if (performance.now() - from < 450) assert.deepEqual([sender.inFlight(), sender.waiting()], [1, 4]);
    assert.deepEqual(await Promise.all(waiting), Array(4).fill(undefined), 'none was free in time');
    assert.equal(sender.waiting(), 0);
    assert.equal((await stuck).error, 'timeout');
    assert.equal(silent.accepted(), 1);
  });

  describe('waits for its permit, which', () => {
    const content = { headers: { 'webhook-id': 'n-1' }, body: '{}' };

    /** Takes permits and posts, and notes in which order the clients got theirs. */
    const queue = async (sender: Sender, url: string, client: string, count: number, order: string[]) => {
      await Promise.all(
        Array.from({ length: count }, async () => {
          const permit = await permitOf(sender, url, client);
          order.push(client);
          assert.equal((await permit.post(content)).ok, true);
        }),
      );
    };

    it('goes to the clients of an origin in turn, for any number that one of them has waiting', async () => {
      const receiver = await startQuick();
      const sender = sending({ connectionsPerOrigin: 4 });
      const held = await Promise.all([1, 2, 3, 4].map(() => permitOf(sender, receiver.url, 'MANY')));
      const order: string[] = [];
      const many = queue(sender, receiver.url, 'MANY', 200, order);
      const few = queue(sender, receiver.url, 'FEW', 5, order);
      await until(() => sender.waiting() === 205);
      for (const permit of held) permit.release();
      await Promise.all([many, few]);
      assert.deepEqual(order.slice(0, 10), Array(5).fill(['MANY', 'FEW']).flat());
      assert.equal(order.length, 205);
      assert.ok(receiver.accepted() <= 4);
      assert.equal(sender.waiting(), 0);
    });

    it('is waited for outside the time of the attempt', async () => {
      const receiver = await startQuick();
      const timeoutMs = 1_000;
      const sender = sending({ connectionsPerOrigin: 1, timeoutMs });
      const held = await permitOf(sender, receiver.url, 'SLOW');
      const beganMs = performance.now();
      const posting = sender.post(requestTo(receiver.url, 'NEXT'));
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
      const receiver = await startQuick();
      const sender = sending({ connectionsPerOrigin: 1 });
      const permit = await permitOf(sender, receiver.url, 'A');
      permit.release();
      permit.release();
      await assert.rejects(permit.post(content), /for one POST/);
      const next = await permitOf(sender, receiver.url, 'B');
      assert.equal((await next.post(content)).ok, true);
      next.release();
      await assert.rejects(next.post(content), /for one POST/);
      assert.equal(receiver.accepted(), 1);
      const third = permitOf(sender, receiver.url, 'C');
      const fourth = permitOf(sender, receiver.url, 'D');
      (await third).release();
      (await fourth).release();
    });

    it('reopens a connection that the receiver closed while the permit was held', async () => {
      const receiver = await start({
        answer: (s, count) => (count === 1 ? s.end(noContent) : s.write(noContent)),
      });
      const sender = sending({ connectionsPerOrigin: 1 });
      const first = sender.post(requestTo(receiver.url, 'A'));
      const permit = await permitOf(sender, receiver.url, 'A');
      assert.equal((await first).ok, true);
      await until(() => receiver.open() === 0);
      assert.equal((await permit.post(content)).ok, true);
      assert.equal(receiver.accepted(), 2);
    });

    it('is no longer waited for after its time, and goes to the next that waits', async () => {
      const receiver = await startQuick();
      const sender = sending({ connectionsPerOrigin: 1 });
      const held = await permitOf(sender, receiver.url, 'A');
      const patient = permitOf(sender, receiver.url, 'C');
      assert.equal(await sender.permit(receiver.url, 'B', 20), undefined);
      held.release();
      assert.equal((await (await patient).post(content)).ok, true);
      assert.equal(sender.waiting(), 0);
    });

    it('keeps a sender from closing until it is posted or given back', async () => {
      const receiver = await startQuick();
      const sender = sending({ connectionsPerOrigin: 1 });
      const held = await permitOf(sender, receiver.url, 'A');
      const waiting = permitOf(sender, receiver.url, 'B');
      let isClosed = false;
      const closing = sender.close().then(() => {
        isClosed = true;
      });
      assert.equal((await sender.post(requestTo(receiver.url, 'C'))).error, 'connect');
      assert.equal((await held.post(content)).ok, true);
      const next = await waiting;
      assert.equal(isClosed, false);
      next.release();
      await closing;
      await until(() => receiver.open() === 0);
    });

    it('closes idle connections, even if the receiver would keep them longer', async () => {
      const keeps = 'HTTP/1.1 204 No Content\r\nKeep-Alive: timeout=600\r\n\r\n';
      const receiver = await start({ answer: (socket) => socket.write(keeps) });
      const sender = sending();
      const post = () => sender.post(requestTo(receiver.url, 'A'));
      await Promise.all([post(), post(), post()]);
      assert.equal(receiver.open(), 3);
      await until(() => receiver.open() === 0);
      assert.equal((await post()).ok, true);
      assert.equal(receiver.accepted(), 4);
    });

    describe('when the sockets of the process are used up', () => {
      const startThree = () => Promise.all([startQuick(), startQuick(), startQuick()]);

      it('closes the connection that has been idle longest', async () => {
        const [a, b, c] = await startThree();
        const sender = sending({ maxSockets: 2 });
        const beganMs = performance.now();
        for (const { url } of [a, b, c]) {
          await assertSent(sender, requestTo(url, 'A'));
        }
        await until(() => a.open() === 0);
        assert.ok(performance.now() - beganMs < 5_000, 'closed before it was idle for too long');
        assert.equal(b.open() + c.open(), 2);
        await sender.post(requestTo(b.url, 'A'));
        assert.equal(b.accepted(), 1);
      });

      it('closes none while one that its receiver has closed leaves room', async () => {
        const [kept, next] = await startThree();
        const closed = await start({ answer: (s) => s.end(noContent) });
        const sender = sending({ maxSockets: 2 });
        for (const { url } of [kept, closed]) await assertSent(sender, requestTo(url, 'A'));
        await until(() => closed.open() === 0);
        await assertSent(sender, requestTo(next.url, 'A'));
        assert.equal(kept.open(), 1);
      });

      it('keeps the other idle connections of that origin', async () => {
        const [a, b, c] = await startThree();
        const sender = sending({ maxSockets: 3 });
        const postTo = (url: string) => assertSent(sender, requestTo(url, 'A'));
        await Promise.all([postTo(a.url), postTo(a.url)]);
        for (const { url } of [b, c, a]) await postTo(url);
        assert.equal(a.accepted(), 2);
      });

      it('leaves sockets to a fast receiver, however many slow ones want all', async () => {
        const [fast, ...slow] = await Promise.all(Array.from({ length: 8 }, startQuick));
        const sender = sending({ maxSockets: 64 });
        const gate = startGate();
        const hold = async (url: string) => {
          const permit = await permitOf(sender, url, 'SLOW');
          await gate.closed;
          permit.release();
        };
        const holding = slow.flatMap(({ url }) => Array.from({ length: 16 }, () => hold(url)));
        assert.ok(sender.waiting() > 0);
        const permit = await sender.permit(fast?.url ?? '', 'FAST', 0);
        assert.equal((await permit?.post(content))?.ok, true);
        gate.open();
        await Promise.all(holding);
      });

      it('lets the origins take turns, also the one whose connection becomes free', async () => {
        const [a, b] = await startThree();
        const sender = sending({ maxSockets: 1 });
        const held = await permitOf(sender, a.url, 'A');
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
});
