import assert from 'node:assert/strict';
import { connect, isIPv4, type Socket } from 'node:net';
import { freePort } from '../../local/ports.js';
import { OutgoingProxy } from '../../src/outgoing/proxy.js';
import { opened } from '../servers.js';
import { answering, namesBy } from './dnsServer.js';
import { certificate, noContent, requestTo, startRawReceiver, useNetwork } from './rawReceiver.js';

/** A proxy that answers a CONNECT as a test wants; `tunnel` opens the tunnel to 127.0.0.1. */
async function startProxy(
  answer: (target: string, head: string, socket: Socket) => 'tunnel' | string | undefined,
  tunnelHeader = '',
) {
  const heads: string[] = [];
  const receiver = await startRawReceiver({
    onConnection: (socket) =>
      socket.once('data', (bytes) => {
        const head = String(bytes);
        heads.push(head);
        const target = head.split(' ')[1] ?? '';
        const said = answer(target, head, socket);
        if (said !== 'tunnel') return said !== undefined && socket.write(said);
        const to = connect(Number(target.split(':').at(-1)), '127.0.0.1', () => {
          socket.write(`HTTP/1.1 200 Connection established\r\n${tunnelHeader}\r\n`);
          socket.pipe(to).pipe(socket);
        });
        to.on('error', () => socket.destroy());
      }),
  });
  return { ...receiver, heads };
}

const refusedNowhere = 'HTTP/1.1 403 Forbidden\r\n\r\n';
const headsOfPages = [
  'content-length: 9\r\n',
  'transfer-encoding: chunked\r\n',
  'content-type: text/html\r\n',
];

describe('a receiver behind an outgoing proxy', () => {
  const { start, sending } = useNetwork();
  const through = async (...asked: Parameters<typeof startProxy>) => opened(await startProxy(...asked));
  const using = ({ port }: { port: number }, resolves = false) =>
    new OutgoingProxy(`http://me:p%40ss@127.0.0.1:${port}`, resolves);

  const tunnels: [what: string, resolves: boolean, header?: string][] = [
    ['to its name', true],
    ['to its judged address', false],
    ['to its second address, where the proxy is silent about the first', false],
    ...headsOfPages.map((header): (typeof tunnels)[0] => [
      `with the head of a page, ${header}`,
      false,
      header,
    ]),
  ];
  for (const tls of [false, true])
    for (const [what, resolves, header] of tunnels)
      it(`gets POSTs through a tunnel ${what.trim()}${tls ? ', over TLS' : ''}`, async () => {
        const silent = what.includes('silent') ? '127.0.0.2' : 'none';
        const proxy = await through((target) => (target.startsWith(silent) ? undefined : 'tunnel'), header);
        const receiver = await start({ tls, answer: (s) => s.write(noContent) });
        const found = namesBy(answering([silent, '127.0.0.1'].filter(isIPv4)));
        const names = resolves ? namesBy(() => assert.fail('the name is looked up')) : found;
        const sender = sending({ names, ca: certificate, proxy: using(proxy, resolves) });
        const url = `${tls ? 'https' : 'http'}://receiver.example:${receiver.port}/a`;
        const results = [await sender.post(requestTo(url)), await sender.post(requestTo(url))];
        const expected = [true, resolves ? undefined : '127.0.0.1'];
        for (const { ok, remoteAddress } of results) assert.deepEqual([ok, remoteAddress], expected);
        const [head = '', ...more] = proxy.heads.filter((one) => !one.includes(silent));
        assert.deepEqual(more, []);
        const target = `${resolves ? 'receiver.example' : '127.0.0.1'}:${receiver.port}`;
        assert.ok(head.startsWith(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n`));
        assert.ok(head.includes(`Proxy-Authorization: Basic ${btoa('me:p@ss')}\r\n`));
        assert.doesNotMatch(receiver.received(), /proxy-/i);
      });

  for (const status of [500, 502, 503, 504])
    it(`fails as connect where the proxy says ${status}, after each address`, async () => {
      const proxy = await through(() => `HTTP/1.1 ${status} No way\r\n\r\n`);
      const names = namesBy(answering(['127.0.0.1', '127.0.0.2']));
      const { error, detail, ours } = await sending({ names, proxy: using(proxy) }).post(
        requestTo('http://receiver.example:9/'),
      );
      assert.deepEqual([error, detail, ours], ['connect', 'proxy_found_no_way', undefined]);
      assert.equal(proxy.heads.length, 2);
    });

  const faults: [what: string, answer: Parameters<typeof startProxy>[0]][] = [
    ...[100, 101, 103, 302, 400, 401, 403, 405, 407, 429, 501].map((status): [string, () => string] => [
      `answers ${status}`,
      () => `HTTP/1.1 ${status} No\r\ncontent-length: 0\r\n\r\n`,
    ]),
    ...['', ...headsOfPages].map((header): [string, () => string] => [
      `has a page (${header.trim()})`,
      () => `HTTP/1.1 200 OK\r\n${header}\r\n6\r\n<html>`,
    ]),
    ...headsOfPages.flatMap((header) =>
      ['', ', cut'].map((cut): (typeof faults)[number] => [
        `has a page later (${header.trim()}${cut})`,
        (_target, _head, socket) => {
          socket.write(`HTTP/1.1 200 OK\r\n${header}\r\n`);
          setTimeout(() => (cut ? socket.resetAndDestroy() : socket.write('6\r\n<html>')), 20);
          return undefined;
        },
      ]),
    ),
    ['speaks another protocol', () => '220 mail.example\r\n'],
    ['closes', (_target, _head, socket) => void socket.end()],
    ['resets', (_target, _head, socket) => void socket.resetAndDestroy()],
    ['is silent', () => undefined],
  ];
  for (const [what, answer] of faults)
    it(`is not to blame where the proxy ${what}`, async () => {
      const proxy = await through(answer);
      const sender = sending({ proxy: using(proxy), timeoutMs: what === 'is silent' ? 300 : 20_000 });
      const { ok, ours, why } = await sender.post(requestTo('http://127.0.0.1:9/'));
      assert.deepEqual([ok, ours], [false, 'proxy']);
      if (what.startsWith('answers')) assert.equal(why, `it answered ${what.slice(-3)}`);
      if (what.startsWith('has a page')) assert.equal(await using(proxy).fault(), why);
    });

  it('is not to blame where there is no proxy at its address', async () => {
    const nobody = using({ port: await freePort() });
    const { ours } = await sending({ proxy: nobody }).post(requestTo('http://127.0.0.1:9/'));
    assert.equal(ours, 'proxy');
    assert.equal(await nobody.fault(), 'it cannot be reached');
  });

  it('sends the proxy a user without a password, or a password alone', async () => {
    const proxy = await through(() => refusedNowhere);
    for (const credentials of ['me:', ':p%40ss'])
      await new OutgoingProxy(`http://${credentials}@127.0.0.1:${proxy.port}`, false).fault();
    const sent = proxy.heads.map((head) => atob(/Basic (\S+)/.exec(head)?.[1] ?? ''));
    assert.deepEqual(sent, ['me:', ':p@ss']);
  });

  it('is tried by a tunnel to nowhere, whose refusal is a fault only where it asks for credentials', async () => {
    for (const [header, fault] of [
      ['', undefined],
      ['Proxy-Authenticate: Basic\r\n', 'it refuses the user name and password (407)'],
    ] as const) {
      const proxy = await through(
        () => `HTTP/1.1 407 Request rejected\r\n${header}content-length: 0\r\n\r\n`,
      );
      assert.equal(await using(proxy).fault(), fault);
    }
  });

  it('times out itself where the proxy answers others', async () => {
    const proxy = await through((target) => (target === '127.0.0.1:1' ? refusedNowhere : undefined));
    const { error, detail, ours } = await sending({ proxy: using(proxy), timeoutMs: 300 }).post(
      requestTo('http://127.0.0.1:9/'),
    );
    assert.deepEqual([error, detail, ours], ['timeout', 'during_connect', undefined]);
    assert.equal(await using(proxy).fault(), undefined);
  });

  it('is never asked for by an address that is not allowed', async () => {
    const proxy = await through(() => 'tunnel');
    const { error } = await sending({ proxy: using(proxy) }).post(requestTo('http://10.0.0.7/'));
    assert.equal(error, 'blocked_address');
    assert.deepEqual(proxy.heads, []);
  });
});
