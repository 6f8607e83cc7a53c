import assert from 'node:assert/strict';
import { mkdirSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type NameSettings, SystemNames } from '../../src/outgoing/names.js';
import { newFolder } from '../servers.js';
import type { DnsServer } from './dnsServer.js';
import { requestTo, until, useNetwork } from './rawReceiver.js';

describe('a name', () => {
  const { start, startQuick, startDns, sending } = useNetwork();
  let folder: string;

  before(async () => {
    folder = await newFolder();
  });

  const hostsFile = (text: string): string => {
    const path = join(folder, 'hosts');
    writeFileSync(path, text);
    return path;
  };

  const namesOf = (dns: DnsServer, settings: NameSettings = {}): SystemNames =>
    new SystemNames({ servers: [dns.address], hostsPath: join(folder, 'none'), ...settings });

  const addressesOf = async (names: SystemNames, name: string): Promise<string[]> =>
    (await names.lookup(name)).map(({ address }) => address);

  it('without a dot is asked for as it is', async () => {
    const dns = await startDns((name) => (name === 'receiver' ? ['10.0.0.7'] : 'unknown'));
    assert.deepEqual(await addressesOf(namesOf(dns), 'receiver'), ['10.0.0.7']);
    assert.deepEqual([...new Set(dns.asked)], ['receiver']);
  });

  it('with hundreds of addresses has the first 64: each is judged before every connection', async () => {
    const many = Array.from({ length: 200 }, (_, i) => `10.1.${i >> 8}.${i & 255}`);
    assert.deepEqual(
      await addressesOf(namesOf(await startDns(() => many)), 'many.example'),
      many.slice(0, 64),
    );
  });

  const v4 = '192.0.2.1';
  const v6 = '2001:db8:1:2:3:4:5:6';
  for (const [what, answer, expected] of [
    ['well', [v4, '192.0.2.2'], [v4, '192.0.2.2']],
    ['silent about AAAA', { a: [v4], aaaa: 'silent' }, [v4]],
    ['silent about A', { a: 'silent', aaaa: [v6] }, [v6]],
    ['late with AAAA', { a: [v4], aaaa: [v6], afterMs: { aaaa: 2_000 } }, [v4]],
    ['a little late with AAAA', { a: [v4], aaaa: [v6], afterMs: { aaaa: 1 } }, [v4, v6]],
    ['a little late with A', { a: [v4], aaaa: [v6], afterMs: { a: 1 } }, [v4, v6]],
    ['late with AAAA, without a route', { a: [v4], aaaa: [v6], afterMs: { aaaa: 2_000 } }, [v4]],
    [`late with A, without a route to ${v6}`, { a: [v4], aaaa: [v6], afterMs: { a: 300 } }, [v4, v6]],
    ['without IPv4, and late with AAAA', { a: [], aaaa: [v6], afterMs: { aaaa: 300 } }, [v6]],
    ['unknown by AAAA, and late with A', { a: [v4], aaaa: 'unknown', afterMs: { a: 300 } }, [v4]],
    ['without IPv4 behind an alias', { a: 'alias', aaaa: [v6], afterMs: { aaaa: 300 } }, [v6]],
  ] as const)
    for (const servers of [1, 2, 3])
      it(`has what came of ${servers} name servers that are ${what}`, async () => {
        const all = await Promise.all(Array.from({ length: servers }, () => startDns(() => answer)));
        const names = new SystemNames({
          servers: all.map(({ address }) => address),
          hostsPath: join(folder, 'none'),
          // Longer than a test may take: nothing waits for it.
          timeoutMs: 120_000,
          hasRoute: async (address) => !/ without a route$/.test(what) && !what.endsWith(` to ${address}`),
          ...(what.startsWith('a little') && { otherFamilyMs: 60_000 }),
        });
        assert.deepEqual(await addressesOf(names, 'hooks.example'), expected);
      });

  it('that is an alias of a name without an address has none', async () => {
    await assert.rejects(namesOf(await startDns(() => 'alias')).lookup('hooks.example'), { code: 'ENODATA' });
  });

  it('says how long its answer may be used', async () => {
    const dns = await startDns(() => ['192.0.2.1'], 30);
    const [found] = await namesOf(dns).lookup('hooks.example');
    assert.deepEqual(found, { address: '192.0.2.1', family: 4, ttlSeconds: 30 });
  });

  it('in the hosts file has the addresses there, and DNS is not asked', async () => {
    const dns = await startDns(() => ['192.0.2.1']);
    const hostsPath = hostsFile('# ours\n::7\thooks.example # six\n10.0.0.7  Hooks.Example alias\nbroken\n');
    const names = namesOf(dns, { hostsPath });
    for (const name of ['hooks.example', 'HOOKS.example', 'hooks.example.']) {
      assert.deepEqual(await addressesOf(names, name), ['10.0.0.7', '::7']);
    }
    assert.deepEqual(await addressesOf(names, 'alias'), ['10.0.0.7']);
    assert.deepEqual(dns.asked, []);
  });

  it('has other addresses when the hosts file has changed', async () => {
    const dns = await startDns(() => 'unknown');
    const names = namesOf(dns, { hostsPath: hostsFile('10.0.0.7 hooks.example') });
    assert.deepEqual(await addressesOf(names, 'hooks.example'), ['10.0.0.7']);
    hostsFile('10.0.0.77 hooks.example');
    assert.deepEqual(await addressesOf(names, 'hooks.example'), ['10.0.0.77']);
    rmSync(join(folder, 'hosts'));
    await assert.rejects(names.lookup('hooks.example'), { code: 'ENOTFOUND' });
    // Docker makes a folder where it is told to mount a file that does not exist.
    mkdirSync(join(folder, 'hosts'));
    await assert.rejects(names.lookup('hooks.example'), { code: 'ENOTFOUND' });
    rmdirSync(join(folder, 'hosts'));
  });

  it('that means this host is loopback, for any answer of DNS', async () => {
    const dns = await startDns(() => ['192.0.2.1']);
    for (const name of ['localhost', 'localhost.', 'LOCALHOST', 'a.b.localhost']) {
      assert.deepEqual(await addressesOf(namesOf(dns), name), ['127.0.0.1']);
      const hostsPath = hostsFile('::1 localhost\n127.0.0.1 localhost\n10.0.0.7 localhost a.b.localhost');
      assert.deepEqual(await addressesOf(namesOf(dns, { hostsPath }), name), ['127.0.0.1', '::1']);
    }
  });

  it('of the reserved domain does not exist, for any answer of DNS', async () => {
    const dns = await startDns(() => ['192.0.2.1']);
    await assert.rejects(namesOf(dns).lookup('nowhere.invalid'), { code: 'ENOTFOUND' });
  });

  it('is asked for once by many concurrent callers', async () => {
    const dns = await startDns(() => ['192.0.2.1']);
    const names = namesOf(dns);
    await Promise.all(Array.from({ length: 50 }, () => names.lookup('hooks.example')));
    assert.equal(dns.asked.length, 2, 'IPv4 and IPv6');
  });

  it('is looked up when another place gives its lookup back or is no longer wanted', async () => {
    const dns = await startDns(() => ['127.0.0.1']);
    const names = namesOf(dns);
    const receiver = await startQuick();
    const sender = sending({ names, maxLookups: 1 });
    const at = (host: string) => `http://${host}.example:${receiver.port}/`;
    const held = await sender.permit(at('held'), 'A', Infinity);
    const leaving = Array.from({ length: 2_000 }, (_, i) => sender.permit(at(`leaving-${i}`), 'B', 1));
    const posting = sender.post(requestTo(at('posting'), 'C'));
    assert.equal(sender.waiting(), 2_001);
    assert.ok((await Promise.all(leaving)).every((place) => place === undefined));
    held?.release();
    assert.equal((await posting).ok, true);
    assert.equal(sender.waiting(), 0);
    assert.deepEqual([...new Set(dns.asked)], ['posting.example']);
  });

  it('is looked up while another name, already looked up, waits for its answer', async () => {
    const names = namesOf(await startDns(() => ['127.0.0.1']));
    const [silent, quick] = [await start({}), await startQuick()];
    const sender = sending({ names, maxLookups: 1, timeoutMs: 1500 });
    const waiting = sender.post(requestTo(`http://silent.example:${silent.port}/`));
    await until(() => silent.received().endsWith('}'));
    assert.equal((await sender.post(requestTo(`http://quick.example:${quick.port}/`))).ok, true);
    assert.equal((await waiting).error, 'timeout');
  });
});
