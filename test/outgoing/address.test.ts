import assert from 'node:assert/strict';
import fc from 'fast-check';
import { judgeAddress, type TargetPolicy } from '../../src/outgoing/address.js';

const isAllowedAddress = (...asked: Parameters<typeof judgeAddress>) => judgeAddress(...asked) === 'allowed';

const publicOnly: TargetPolicy = { allowHttp: false, allowedCidrs: [], ownPorts: [3000] };

const notPublic: Record<string, readonly string[]> = {
  'of this host': ['0.0.0.0', '127.0.0.1', '::', '::1'],
  'of a private network': ['10.0.0.1', '100.64.0.1', '172.16.0.1', '192.168.1.1'],
  'of a link': ['169.254.169.254', 'fe80::1', 'fe80::1%eth0'],
  'of services of Azure, IBM and Alibaba': ['168.63.129.16', '161.26.0.10', '166.9.0.1', '100.100.100.200'],
  'of services of Oracle, AWS and Google': ['192.0.0.192', 'fd00:ec2::254', 'fd20:ce::254'],
  'of documentation, multicast or nobody': ['192.0.2.1', '224.0.0.1', 'ff02::1', '2001:db8::1', '4000::1'],
  'that map or translate IPv4': ['::ffff:7f00:1', '0:0:0:0:0:ffff:a9fe:a9fe', '::ffff:0:127.0.0.1'],
  'of NAT64, also the local-use prefix': ['64:ff9b::a9fe:a9fe', '64:ff9b:1::8.8.8.8'],
  'of 6to4 and Teredo': ['2002:808:808::1', '2001::1', '2001:0:808:808::f5ff:fffe'],
  'of ISATAP': ['2a00:1450:4001::5efe:10.0.0.1'],
  'that the system does not write so': ['', 'example.com', '127.1', '0x7f000001', '2130706433', ' 8.8.8.8'],
};

/** Beside the ranges that are refused. */
const allowed = ['8.8.8.8', '172.15.0.1', '172.32.0.1', '100.128.0.1', '192.0.1.1', '2a00:1450::200e'];

describe('outgoing guard: addresses', () => {
  for (const [what, addresses] of Object.entries(notPublic)) {
    it(`refuses addresses ${what}`, () => {
      for (const address of addresses)
        assert.equal(judgeAddress(address, 443, publicOnly), 'not_public', address);
    });
  }

  it('allows others', () => {
    for (const address of allowed) assert.equal(judgeAddress(address, 443, publicOnly), 'allowed', address);
  });

  it('judges every spelling of an IPv4 address as the address itself', () => {
    fc.assert(
      fc.property(fc.ipV4(), (v4) => {
        const verdict = isAllowedAddress(v4, 443, publicOnly);
        assert.equal(isAllowedAddress(`::ffff:${v4}`, 443, publicOnly), verdict);
        assert.equal(isAllowedAddress(`64:ff9b::${v4}`, 443, publicOnly), verdict);
        assert.equal(isAllowedAddress(`::${v4}`, 443, publicOnly), false);
      }),
    );
  });

  it('allows in IPv6 only 2000::/3 and spellings of IPv4', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0x4000, max: 0xffff }), fc.ipV6(), (first, rest) => {
        const groups = rest.split(':');
        fc.pre(groups.length === 8);
        const address = [first.toString(16), ...groups.slice(1)].join(':');
        assert.equal(isAllowedAddress(address, 443, publicOnly), false);
      }),
    );
  });

  describe('with ranges that an operator allowed', () => {
    const ofIPv6 = ['::1/128', '::ffff:10.2.0.0/112', '64:ff9b:1::/48'];
    const opened: TargetPolicy = {
      allowHttp: true,
      allowedCidrs: ['127.0.0.0/8', '10.1.0.0/16', '0.0.0.0/8', ...ofIPv6],
      ownPorts: [3000, 9464],
      ownAddresses: ['10.1.0.7', '93.184.216.34', '2606:4700::7'],
    };

    for (const [verdict, what, addresses] of [
      [
        'allowed',
        'inside, in every spelling',
        ['127.0.0.1', '::1', '10.1.2.3', '10.2.3.4', '::ffff:10.1.2.3', '64:ff9b::10.1.2.3'],
      ],
      ['not_public', 'outside', ['10.3.0.1', '192.168.0.1', 'fe80::1', '::ffff:10.3.0.1', '::127.0.0.1']],
      ['allowed', 'of a local NAT64, with an allowed one inside', ['64:ff9b:1::10.1.2.3']],
      ['not_public', 'of a local NAT64, with another one inside', ['64:ff9b:1::192.168.0.1']],
    ] as [string, string, string[]][]) {
      it(`${verdict}: addresses ${what}`, () => {
        for (const a of addresses) assert.equal(judgeAddress(a, 8080, opened), verdict, a);
      });
    }

    it('never allows the ports of the service on its own addresses', () => {
      const loopback = ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1', '0.0.0.0'];
      for (const port of opened.ownPorts)
        for (const a of [...loopback, ...(opened.ownAddresses ?? [])])
          assert.equal(judgeAddress(a, port, opened), 'own_address', a);
      for (const beside of ['10.1.0.8', '2606:4700::8'])
        assert.equal(judgeAddress(beside, 3000, opened), 'allowed', beside);
    });

    it('names an invalid range', () => {
      const wrong = { ...opened, allowedCidrs: ['10.0.0.0/99'] };
      assert.throws(() => isAllowedAddress('8.8.8.8', 443, wrong), /not a CIDR range: 10\.0\.0\.0\/99/);
    });
  });
});
