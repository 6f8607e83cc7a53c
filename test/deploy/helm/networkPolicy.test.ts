import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import ipaddr from 'ipaddr.js';
import { judgeAddress, refusedRanges } from '../../../src/outgoing/address.js';
import { addressesFile, policyBlocks, publicAddresses } from './generated.js';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Cidr = [Address, number];

const blocks = policyBlocks().map(({ cidr, except }) => ({
  all: ipaddr.parseCIDR(cidr) as Cidr,
  except: except.map((range) => ipaddr.parseCIDR(range) as Cidr),
}));
const policy = { allowHttp: false, allowedCidrs: [], ownPorts: [] };

const isInside = (address: Address, [network, bits]: Cidr): boolean =>
  network.kind() === address.kind() && address.match(network, bits);

function isLetOut(address: string): boolean {
  const parsed = ipaddr.parse(address);
  return blocks.some(
    ({ all, except }) => isInside(parsed, all) && !except.some((range) => isInside(parsed, range)),
  );
}

/** Both ends of a range, and the addresses beside them. */
function aroundEnds([network, bits]: Cidr): Address[] {
  const length = network.toByteArray().length;
  const value = network.toByteArray().reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);
  const size = 1n << BigInt(8 * length - bits);
  const first = value - (value % size);
  return [first - 1n, first, first + size - 1n, first + size]
    .filter((one) => one >= 0n && one < 1n << BigInt(8 * length))
    .map((one) => one.toString(16).padStart(2 * length, '0'))
    .map((hex) => ipaddr.fromByteArray([...Buffer.from(hex, 'hex')]));
}

describe('the public addresses of the chart’s NetworkPolicy', () => {
  it('are those to which the service sends, around both ends of every range that either knows', () => {
    assert.equal(
      readFileSync(addressesFile, 'utf8'),
      publicAddresses(),
      'npx tsx test/deploy/helm/generated.ts',
    );
    assert.ok(refusedRanges.length > 20);
    for (const range of [...refusedRanges, ...blocks.flatMap(({ all, except }) => [all, ...except])]) {
      for (const parsed of aroundEnds(range)) {
        const address = parsed.toNormalizedString();
        assert.equal(isLetOut(address), judgeAddress(address, 443, policy) === 'allowed', address);
      }
    }
  });
});
