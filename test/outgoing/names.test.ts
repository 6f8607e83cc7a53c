import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type NameSettings, SystemNames } from '../../src/outgoing/names.js';
import type { DnsServer } from './dnsServer.js';
import { requestTo, until, useNetwork } from './rawReceiver.js';

describe('a name', () => {
  const { start, startQuick, startDns, sending } = useNetwork();
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'names-'));
  });

  afterEach(() => rmSync(folder, { recursive: true }));

  const hostsFile = (text: string): string => {
    const path = join(folder, 'hosts');
    writeFileSync(path, text);
    return path;
  };

  const namesOf = (dns: DnsServer, settings: NameSettings = {}): SystemNames =>
    new SystemNames({ servers: [dns.address], hostsPath: join(folder, 'none'), ...settings });

  const addressesOf = async (names: SystemNames, name: string): Promise<string[]> =>
    (await names.lookup(name)).map(({ address }) => address);

  it('has the addresses that DNS gives it', async () => {
    const dns = await startDns((name) => (name === 'hooks.example' ? ['192.0.2.1', '192.0.2.2'] : 'unknown'));
    const names = namesOf(dns);
    assert.deepEqual((await addressesOf(names, 'hooks.example')).sort(), ['192.0.2.1', '192.0.2.2']);
    await assert.rejects(names.lookup('other.example'), { code: 'ENOTFOUND' });
  });

  it('without a dot is asked for as it is', async () => {
    const dns = await startDns((name) => (name === 'receiver' ? ['10.0.0.7'] : 'unknown'));
    assert.deepEqual(await addressesOf(namesOf(dns), 'receiver'), ['10.0.0.7']);
    assert.deepEqual([...new Set(dns.asked)], ['receiver']);
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
    const held = await sender.permit(at('held'), 'A');
    const leaving = Array.from({ length: 2_000 }, (_, i) => {
      const controller = new AbortController();
      return { controller, place: sender.permit(at(`leaving-${i}`), 'B', controller.signal) };
    });
    const posting = sender.post(requestTo(at('posting'), 'C'));
    assert.equal(sender.waiting(), 2_001);
    for (const { controller } of leaving) controller.abort(new Error('enough'));
    for (const { place } of leaving) await assert.rejects(place, /enough/);
    held.release();
    assert.equal((await posting).ok, true);
    assert.equal(sender.waiting(), 0);
    assert.deepEqual([...new Set(dns.asked)], ['posting.example']);
  });

  it('is looked up while another name, already looked up, waits for its answer', async () => {
    const names = namesOf(await startDns(() => ['127.0.0.1']));
    const [silent, quick] = [await start({}), await startQuick()];
    const sender = sending({ names, maxLookups: 1 });
    const controller = new AbortController();
    const { signal } = controller;
    const waiting = sender.post({ ...requestTo(`http://silent.example:${silent.port}/`), signal });
    await until(() => silent.received().endsWith('}'));
    assert.equal((await sender.post(requestTo(`http://quick.example:${quick.port}/`))).ok, true);
    controller.abort(new Error('enough'));
    await assert.rejects(waiting, /enough/);
  });
});
