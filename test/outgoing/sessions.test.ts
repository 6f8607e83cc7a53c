import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { noContent, ownKey, pass, requestTo, useNetwork } from './rawReceiver.js';

const handshake = 22;

/** Whether a ClientHello (RFC 8446, section 4.1.2) offers a session: `pre_shared_key`, or a `session_ticket` that is not empty. */
function offersSession(hello: Buffer): boolean {
  let at = 9 + 2 + 32;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  const end = at + 2 + hello.readUInt16BE(at);
  for (at += 2; at < end; at += 4 + hello.readUInt16BE(at + 2)) {
    const type = hello.readUInt16BE(at);
    if (type === 41 || (type === 35 && hello.readUInt16BE(at + 2) > 0)) return true;
  }
  return false;
}

describe('a receiver that refuses to resume a TLS session', () => {
  const { start, sending } = useNetwork();

  const refusals: [what: string, does: (socket: Socket) => unknown][] = [
    ...[10, 40, 47, 51, 80].map((alert): (typeof refusals)[0] => [
      `with alert ${alert}`,
      (s) => s.end(Buffer.from([21, 3, 3, 0, 2, 2, alert])),
    ]),
    ['by closing', (s) => s.end()],
    ['by a reset', (s) => s.resetAndDestroy()],
  ];

  /** @param does what it does to who offers a session */
  async function startFront(version: 'TLSv1.2' | 'TLSv1.3', does: (socket: Socket) => unknown) {
    const behind = await start({
      tls: { ...ownKey, minVersion: version, maxVersion: version },
      answer: (s) => s.write(noContent),
    });
    const front = { url: '', refused: 0 };
    const onConnection = (socket: Socket) =>
      socket.once('data', (hello) => {
        // Whoever asks for a server that had this port before.
        if (hello[0] !== handshake) return socket.destroy();
        if (offersSession(hello)) {
          front.refused++;
          return does(socket);
        }
        return pass(socket, behind.port, hello);
      });
    front.url = `https://127.0.0.1:${(await start({ onConnection })).port}/`;
    return front;
  }

  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    for (const [what, does] of refusals)
      it(`${what} (${version}) gets every notification within its attempt, also those that come together`, async () => {
        const front = await startFront(version, does);
        const sender = sending();
        const post = () => sender.post(requestTo(front.url));
        const results = [await post(), ...(await Promise.all(Array.from({ length: 16 }, post)))];
        assert.deepEqual(new Set(results.map(({ error }) => error)), new Set([undefined]));
        assert.ok(front.refused > 0, 'a session is offered');
      });

    it(`by silence (${version}) is offered it by no later attempt`, async () => {
      const front = await startFront(version, () => undefined);
      const sender = sending({ timeoutMs: 3_000 });
      const post = () => sender.post(requestTo(front.url));
      const details = [];
      for (const together of [1, 2, 2])
        for (const { detail } of await Promise.all(Array.from({ length: together }, post)))
          details.push(detail);
      assert.deepEqual(details, [undefined, undefined, 'connection_unserved', undefined, undefined]);
    });
  }

  it('after the handshake gets it over a new session', async () => {
    let refused = 0;
    const receiver = await start({
      tls: true,
      answer: (s) => {
        if (!(s as TLSSocket).isSessionReused()) return s.write(noContent);
        refused++;
        return s.destroy();
      },
    });
    const sender = sending();
    const post = () => sender.post(requestTo(receiver.url));
    const results = [await post(), ...(await Promise.all([post(), post(), post()]))];
    assert.deepEqual(new Set(results.map(({ error }) => error)), new Set([undefined]));
    assert.ok(refused > 0);
  });
});
