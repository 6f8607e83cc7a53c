import assert from 'node:assert/strict';
import { oursWhileConnecting } from '../../src/outgoing/failures.js';
import { SystemNames } from '../../src/outgoing/names.js';
import { createSender, type PostResult, type SenderSettings } from '../../src/outgoing/post.js';
import { canIsolateNetwork, isolated, runChild } from './children/run.js';
import { type DnsServer, startDnsServer } from './dnsServer.js';
import { loopbackPolicy } from './rawReceiver.js';

const post = async (url: string, settings: Partial<SenderSettings>): Promise<PostResult> => {
  const sender = createSender({ policy: loopbackPolicy, timeoutMs: 20_000, ...settings });
  const result = await sender.post({ url, client: 'SITE0042', headers: {}, body: '{}' });
  await sender.close();
  return result;
};

const blame = ({ ok, error, ours, detail }: PostResult) => ({ ok, error, ours, detail });

describe('an own failure', () => {
  const open: DnsServer[] = [];

  afterEach(async () => {
    for (const server of open.splice(0)) await server.close();
  });

  const namesOf = (server: DnsServer): SystemNames =>
    new SystemNames({ servers: [server.address], hostsPath: '/nonexistent', timeoutMs: 250, tries: 1 });

  const startDns = async (answer: Parameters<typeof startDnsServer>[0]): Promise<DnsServer> => {
    const server = await startDnsServer(answer);
    open.push(server);
    return server;
  };

  it('is a lack of file descriptors, by address and by name, and ends when there are some', () => {
    const { byAddress, byName, afterwards } = runChild<{
      byAddress: PostResult;
      byName: PostResult;
      afterwards: PostResult[];
    }>('withoutDescriptors.ts', 'ulimit -n 120');
    assert.deepEqual(blame(byAddress), {
      ok: false,
      error: 'connect',
      ours: 'descriptors',
      detail: 'EMFILE',
    });
    assert.deepEqual(blame(byName), {
      ok: false,
      error: 'dns',
      ours: 'descriptors',
      detail: 'no answer (EMFILE)',
    });
    assert.deepEqual(
      afterwards.map(({ ok }) => ok),
      [true, true],
    );
  });

  it('is a resolver that does not exist', async () => {
    const dns = await startDnsServer(() => []);
    await dns.close();
    const result = await post('http://hooks.example/', { names: namesOf(dns) });
    assert.deepEqual(blame(result), {
      ok: false,
      error: 'dns',
      ours: 'resolver',
      detail: 'no answer (ECONNREFUSED)',
    });
  });

  it('is a silent resolver, which many callers find out by one question', async () => {
    const dns = await startDns(() => 'silent');
    const names = namesOf(dns);
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, i) => post(`http://hooks-${i}.example/`, { names })),
    );
    for (const { error, ours } of results)
      assert.deepEqual({ error, ours }, { error: 'dns', ours: 'resolver' });
    const neutral = dns.asked.filter((name) => name === '').length;
    assert.ok(neutral >= 1 && neutral <= 3, `${neutral} questions`);
  });

  it('is a resolver that is silent for longer than the attempt may take', async () => {
    const dns = await startDns(() => 'silent');
    const names = new SystemNames({ servers: [dns.address], hostsPath: '/nonexistent', timeoutMs: 20_000 });
    const result = await post('http://hooks.example/', { names, timeoutMs: 100 });
    assert.deepEqual(blame(result), { ok: false, error: 'dns', ours: 'resolver', detail: 'no answer' });
  });

  it('is a resolver that is cut off from the network', async () => {
    const names = namesOf(await startDns(() => 'broken'));
    const result = await post('http://hooks.example/', { names });
    assert.equal(result.ours, 'resolver');
    assert.equal(result.detail, 'no answer (ESERVFAIL)');
  });

  for (const dead of ['silent', 'broken'] as const) {
    it(`is not a single zone whose name servers are ${dead}`, async () => {
      const dns = await startDns((name) => (name.endsWith('dead.example') ? dead : []));
      const result = await post('http://hooks.dead.example/', { names: namesOf(dns) });
      assert.equal(result.error, 'dns');
      assert.equal(result.ours, undefined);
      assert.ok(dns.asked.includes(''), 'nothing else was asked, so the resolver is');
    });
  }

  it('is not a single zone whose name servers are silent for longer than the attempt may take', async () => {
    const dns = await startDns((name) => (name.endsWith('dead.example') ? 'silent' : []));
    const names = new SystemNames({ servers: [dns.address], hostsPath: '/nonexistent', timeoutMs: 20_000 });
    const result = await post('http://hooks.dead.example/', { names, timeoutMs: 100 });
    assert.deepEqual(blame(result), {
      ok: false,
      error: 'timeout',
      ours: undefined,
      detail: 'no answer within 100 ms',
    });
  });

  it('is a host without a route to anywhere', function () {
    if (!canIsolateNetwork()) this.skip();
    const results = runChild<PostResult[]>('withoutRoute.ts', isolated, ['unshare', '-n']);
    for (const { error, ours } of results)
      assert.deepEqual({ error, ours }, { error: 'connect', ours: 'network' });
  });

  it('is a lack of local ports', function () {
    if (!canIsolateNetwork()) this.skip();
    const result = runChild<PostResult>('withoutPorts.ts', isolated, ['unshare', '-n']);
    assert.deepEqual(blame(result), {
      ok: false,
      error: 'connect',
      ours: 'network',
      detail: 'EADDRNOTAVAIL',
    });
  });

  /** The kernel refuses TCP to a multicast address with ENETUNREACH, on every host; the routes are the test's. */
  const unreachable = { policy: { ...loopbackPolicy, allowedCidrs: ['224.0.0.0/4'] } };

  it('is an unreachable network, if there is no route to anywhere', async () => {
    const result = await post('http://224.0.0.1/', { ...unreachable, hasRoute: async () => false });
    assert.deepEqual(blame(result), { ok: false, error: 'connect', ours: 'network', detail: 'ENETUNREACH' });
  });

  it('is not an unreachable network with a route to it, or one that alone has no route', async () => {
    for (const routed of [['224.0.0.1'], ['203.0.113.1'], ['2001:db8::1']]) {
      const hasRoute = async (address: string) => routed.includes(address);
      const result = await post('http://224.0.0.1/', { ...unreachable, hasRoute });
      assert.deepEqual(blame(result), {
        ok: false,
        error: 'connect',
        ours: undefined,
        detail: 'ENETUNREACH',
      });
    }
  });

  it('is identified by the code alone if that is enough', async () => {
    const noRoute = async () => false;
    for (const code of ['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS']) {
      assert.equal(await oursWhileConnecting(code, ['198.51.100.7'], noRoute), 'descriptors');
    }
    assert.equal(await oursWhileConnecting('ENETDOWN', ['198.51.100.7'], noRoute), 'network');
    for (const code of ['ECONNREFUSED', 'ETIMEDOUT', 'ECONNRESET']) {
      assert.equal(await oursWhileConnecting(code, ['198.51.100.7'], noRoute), undefined);
    }
  });

  it('is a lack of ports, but not an address of a family that this host does not have', async () => {
    const here = ['198.51.100.7'];
    const onlyIpv4 = async (address: string) => !address.includes(':');
    assert.equal(await oursWhileConnecting('EADDRNOTAVAIL', here, onlyIpv4), 'network');
    assert.equal(await oursWhileConnecting('EADDRNOTAVAIL', ['2001:db8::7'], onlyIpv4), undefined);
  });
});
