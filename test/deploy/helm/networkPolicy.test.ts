import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import ipaddr from 'ipaddr.js';
import { parse } from 'yaml';
import { judgeAddress } from '../../../src/outgoing/address.js';
import { chartDir } from './tools.js';

interface Block {
  ipBlock: { cidr: string; except: string[] };
}
type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Cidr = [Address, number];

const text = readFileSync(`${chartDir}/templates/_publicAddresses.tpl`, 'utf8').replace(/^\{\{.*\}\}$/gm, '');
const blocks = (parse(text) as Block[]).map(({ ipBlock }) => ({
  all: ipaddr.parseCIDR(ipBlock.cidr) as Cidr,
  except: ipBlock.except.map((range) => ipaddr.parseCIDR(range) as Cidr),
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

/** Every range that is not simply public, by the library that the service asks. */
const special = [ipaddr.IPv4, ipaddr.IPv6].flatMap((kind) => {
  const { SpecialRanges } = kind.prototype as Address & { SpecialRanges: Record<string, Cidr | Cidr[]> };
  return Object.values(SpecialRanges).flatMap((ranges) =>
    Array.isArray(ranges[0]) ? (ranges as Cidr[]) : [ranges as Cidr],
  );
});

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
    assert.ok(special.length > 20);
    for (const range of [...special, ...blocks.flatMap(({ all, except }) => [all, ...except])]) {
      for (const parsed of aroundEnds(range)) {
        const address = parsed.toNormalizedString();
        assert.equal(isLetOut(address), judgeAddress(address, 443, policy) === 'allowed', address);
      }
    }
  });
});
