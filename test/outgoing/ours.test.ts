import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import type { Socket } from 'node:net';
import { devNull } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pass } from 'node:timers/promises';
import { connectFailed } from '../../src/outgoing/failures.js';
import { SystemNames } from '../../src/outgoing/names.js';
import type { PostResult, SenderSettings } from '../../src/outgoing/post.js';
import { startProgram } from '../program.js';
import { loopbackPolicy, noContent, requestTo, until, useNetwork } from './rawReceiver.js';

/** Of the child that is paused. */
const attemptMs = 3000;

/** Brings up the loopback interface of a network of its own. */
const isolated = 'ip link set lo up';
const canIsolateNetwork = () => spawnSync('unshare', ['-n', 'sh', '-c', isolated]).status === 0;

const failed = (code: string) => Object.assign(new Error(code), { code });
const blame = ({ ok, error, ours }: PostResult) => ({ ok, error, ours });

describe('an own failure', () => {
  const { start, startDns, sending } = useNetwork();

  const post = (url: string, settings: Partial<SenderSettings> = {}): Promise<PostResult> =>
    sending(settings).post(requestTo(url));

  it('is a lack of file descriptors, by address, by name and by a proxy, and ends when there are some', async () => {
    const { byAddress, byName, byProxy, afterwards } = await runChild<{
      byAddress: PostResult;
      byName: PostResult;
      byProxy: PostResult;
      afterwards: PostResult[];
    }>('withoutDescriptors.ts', 'ulimit -n 120');
    const ours = { ok: false, ours: 'descriptors' };
    assert.deepEqual(blame(byAddress), { ...ours, error: 'connect' });
    assert.deepEqual(blame(byProxy), { ...ours, error: 'connect' });
    assert.deepEqual(blame(byName), { ...ours, error: 'dns' });
    const outcomes = afterwards.map(({ ok }) => ok);
    assert.deepEqual(outcomes, [true, true]);
  });

  it('is a silent resolver, which many callers find out by one question', async () => {
    const dns = await startDns(() => 'silent');
    const names = new SystemNames({ servers: [dns.address], hostsPath: devNull, timeoutMs: 1000, tries: 1 });
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, i) => post(`http://hooks-${i}.example/`, { names })),
    );
    for (const { error, ours } of results)
      assert.deepEqual({ error, ours }, { error: 'dns', ours: 'resolver' });
    const neutral = dns.asked.filter((name) => name === '').length;
    assert.ok(neutral >= 1 && neutral <= 3, `${neutral} questions`);
  });

  it('is a host without a route to anywhere', async function () {
    if (!canIsolateNetwork()) this.skip();
    const urls = ['http://198.51.100.7/', 'http://[2001:db8::7]/'];
    const results = await runChild<PostResult[]>('posts.ts', isolated, ['unshare', '-n'], urls);
    assert.equal(results.length, 2);
    for (const { error, ours } of results)
      assert.deepEqual({ error, ours }, { error: 'connect', ours: 'network' });
  });

  /** The kernel refuses TCP to a multicast address with ENETUNREACH, on every host; the routes are the test's. */
  const unreachable = { policy: { ...loopbackPolicy, allowedCidrs: ['224.0.0.0/4'] } };

  for (const [what, ours, routed] of [
    ['is an unreachable network, if there is no route to anywhere', 'network', 'none'],
    ['is not an unreachable network with a route to it', undefined, '224.0.0.1'],
    ['is not a network that alone has no route', undefined, '203.0.113.1'],
    ['is not a network without IPv4', undefined, '2001:db8::1'],
  ] as const) {
    it(what, async () => {
      const hasRoute = async (address: string) => address === routed;
      const result = await post('http://224.0.0.1/', { ...unreachable, hasRoute });
      assert.deepEqual(blame(result), { ok: false, error: 'connect', ours });
    });
  }

  it('is a way out that reaches none of three silent networks, unless they are of one account, and not one or two silent ones', async function () {
    if (!canIsolateNetwork()) this.skip();
    const vanishing = `${isolated} && ip route add default dev lo`;
    const seen = await runChild<unknown[]>('outside.ts', vanishing, ['unshare', '-n'], ['3', '2', '1', '0']);
    // The store may be behind the same way out.
    const expected = ['outside', 'outside', 'theirs', 'outside'].map((silent) => [
      [true, true, true],
      ['theirs', true, true],
      ['theirs', 'theirs', true],
      [silent, silent, silent],
      ['theirs', 'theirs', true],
    ]);
    assert.deepEqual(seen, expected);
  });

  it('is a pause of the process longer than an attempt, in no receiver', async () => {
    const asked: (() => void)[] = [];
    const answer = (socket: Socket) => asked.push(() => socket.write(noContent));
    const receivers = await Promise.all([start({ answer }), start({ answer, tls: true }), start({ answer })]);
    const child = startProgram(process.execPath, [
      ...['--import', 'tsx', join(import.meta.dirname, 'children/posts.ts')],
      ...receivers.map(({ url }) => url),
    ]);
    await until(() => asked.length === receivers.length);
    child.signal('SIGSTOP');
    const [late, ...early] = asked;
    for (const answer of early) answer();
    await pass(attemptMs + 1000);
    child.signal('SIGCONT');
    late?.();
    await child.ended;
    const results: PostResult[] = JSON.parse(child.stdout);
    const outcomes = results.map(({ ok, error }) => error ?? ok);
    assert.deepEqual(outcomes, [true, true, true]);
  });

  it('is identified by code and addresses', async () => {
    const onlyIpv4 = async (address: string) => !address.includes(':');
    for (const [codes, ours, address = '198.51.100.7', hasRoute = async () => false] of [
      [['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS'], 'descriptors'],
      [['ENETDOWN'], 'network'],
      [['ECONNREFUSED', 'ETIMEDOUT', 'ECONNRESET'], undefined],
      // A lack of ports, but not an address of a family that this host does not have.
      [['EADDRNOTAVAIL'], 'network', '198.51.100.7', onlyIpv4],
      [['EADDRNOTAVAIL'], undefined, '2001:db8::7', onlyIpv4],
    ] as const)
      for (const code of codes) {
        const { failure } = await connectFailed(failed(code), [{ address, family: 6 }], hasRoute);
        assert.equal(failure.ours, ours, code);
      }
  });
});

/**
 * Runs a module of `children/` and returns what it prints as JSON.
 * @param shell is run before it in the same shell, such as `ulimit -n 100`
 * @param within a command that runs the shell, such as `unshare -n`
 * @param given its arguments
 */
async function runChild<T>(
  module: string,
  shell: string,
  within: string[] = [],
  given: string[] = [],
): Promise<T> {
  const path = join(import.meta.dirname, 'children', module);
  const script = `${shell} && exec "$0" --import tsx "$@"`;
  const [command = 'sh', ...args] = [...within, 'sh', '-c', script, process.execPath, path, ...given];
  const child = startProgram(command, args);
  const status = await child.ended;
  if (status !== 0) throw new Error(`${module} ended with ${status}: ${child.stderr}`);
  return JSON.parse(child.stdout) as T;
}
