import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';
import type { Config } from '../config.js';

/** Where notifications may go: to public addresses, and to those that an operator allowed. */
export interface TargetPolicy {
  /** `http` URLs as well as `https`. */
  allowHttp: boolean;
  /** Ranges beside the public ones, such as `10.0.0.0/8`. */
  allowedCidrs: readonly string[];
  /** Ports of this service; always refused on loopback and on every address of this machine. */
  ownPorts: readonly number[];
  /**
   * Names, addresses and CIDR ranges under which callers reach this service and which its network interfaces do not
   * show (a load balancer, a NAT); refused on every port.
   */
  ownAddresses?: readonly string[];
}

export type AddressVerdict = 'allowed' | 'not_public' | 'own_address';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Cidr = [Address, number];

/** Reads from the settings where notifications may go. @param ownPort another port of this machine that is the service's own */
export function targetPolicyOf(config: Config, ownPort?: number): TargetPolicy {
  const { ALLOW_HTTP_TARGETS, ALLOWED_TARGET_CIDRS, OWN_ADDRESSES, OWN_PORTS, PORT, ADMIN_PORT } = config;
  return {
    allowHttp: ALLOW_HTTP_TARGETS,
    allowedCidrs: ALLOWED_TARGET_CIDRS,
    ownPorts: [PORT, ADMIN_PORT, ...OWN_PORTS, ...(ownPort === undefined ? [] : [ownPort])],
    ownAddresses: OWN_ADDRESSES,
  };
}

/**
 * Judges whether a connection may go to this address and port. The address is a literal
 * without brackets, in any IPv6 spelling. Anything else than an IP address is not allowed.
 * @throws Error naming a range of the policy that is not a CIDR
 */
export function judgeAddress(address: string, port: number, policy: TargetPolicy): AddressVerdict {
  const parsed = parseAddress(address);
  if (parsed === undefined) return 'not_public';
  const { allowed, own } = rangesOf(policy);
  const forms = formsOf(parsed);
  for (const form of forms) if (!isPublic(form) && !isInside(form, allowed)) return 'not_public';
  if (forms.some((form) => isInside(form, own))) return 'own_address';
  if (policy.ownPorts.includes(port) && forms.some(isOfThisMachine)) return 'own_address';
  return 'allowed';
}

function parseAddress(address: string): Address | undefined {
  // ipaddr.js alone would also take octal, hex and short forms.
  if (isIP(address) === 0) return undefined;
  const zone = address.indexOf('%');
  const plain = zone === -1 ? address : address.slice(0, zone);
  // ipaddr.js reads the deprecated `::1.2.3.4` as `::ffff:1.2.3.4`, which is another address.
  const compatible = /^::(\d+\.\d+\.\d+\.\d+)$/.exec(plain)?.[1];
  if (compatible === undefined) return ipaddr.parse(plain);
  const [a = 0, b = 0, c = 0, d = 0] = compatible.split('.').map(Number);
  return new ipaddr.IPv6([0, 0, 0, 0, 0, 0, (a << 8) | b, (c << 8) | d]);
}

/**
 * Returns every address at which a packet to this one may end. An IPv4-mapped address and the well-known NAT64
 * prefix (RFC 6052) are only another spelling of the IPv4 address inside, so that one is judged. For tunnels
 * (6to4, Teredo, ISATAP, RFC 6145, local NAT64) both are judged.
 */
function formsOf(address: Address): Address[] {
  if (address.kind() === 'ipv4') return [address];
  const v6 = address as ipaddr.IPv6;
  const [p0 = 0, p1 = 0, p2 = 0, p3 = 0, p4 = 0, p5 = 0, p6 = 0, p7 = 0] = v6.parts;
  const last = ipv4From(p6, p7);
  const firstSixZero = p0 === 0 && p1 === 0 && p2 === 0 && p3 === 0 && p4 === 0;
  if (firstSixZero && p5 === 0xffff) return [last];
  if (p0 === 0x64 && p1 === 0xff9b) {
    const wellKnown = p2 === 0 && p3 === 0 && p4 === 0 && p5 === 0;
    return wellKnown ? [last] : [v6, last];
  }
  // IPv4-compatible (deprecated); `::` and `::1` are themselves.
  if (firstSixZero && p5 === 0 && (p6 !== 0 || p7 > 1)) return [v6, last];
  if (p0 === 0 && p1 === 0 && p2 === 0 && p3 === 0 && p4 === 0xffff && p5 === 0) return [v6, last];
  if (p0 === 0x2002) return [v6, ipv4From(p1, p2)];
  // RFC 4380: the server in the clear, the client with its bits inverted.
  if (p0 === 0x2001 && p1 === 0) return [v6, ipv4From(p2, p3), ipv4From(p6 ^ 0xffff, p7 ^ 0xffff)];
  // RFC 5214: ISATAP interface identifiers.
  if ((p4 & 0xfdff) === 0 && p5 === 0x5efe) return [v6, last];
  return [v6];
}

function ipv4From(high: number, low: number): ipaddr.IPv4 {
  return new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff]);
}

function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast' || isInside(address, ofClouds)) return false;
  // IANA has assigned only 2000::/3 as global unicast; ipaddr.js calls the unassigned rest unicast too.
  return address.kind() === 'ipv4' || ((address as ipaddr.IPv6).parts[0] ?? 0) >> 13 === 1;
}

/**
 * Services of a cloud to its own machines at addresses that look public. All others that we know are in ranges that are
 * not public: 169.254.169.254, 100.100.100.200 (Alibaba), 192.0.0.192 (Oracle), fd00:ec2::254, fd20:ce::254.
 */
const ofClouds: readonly Cidr[] = [
  // Azure: agents of the machine, DNS, health probes.
  '168.63.129.16/32',
  // IBM Cloud: infrastructure and service endpoints.
  '161.26.0.0/16',
  '166.8.0.0/14',
].map((range) => ipaddr.parseCIDR(range));

function isInside(address: Address, cidrs: readonly Cidr[]): boolean {
  for (const [network, bits] of cidrs) {
    if (network.kind() === address.kind() && address.match(network, bits)) return true;
  }
  return false;
}

function isOfThisMachine(address: Address): boolean {
  // The unspecified address connects to this machine.
  const range = address.range();
  if (range === 'loopback' || range === 'unspecified') return true;
  return addressesOfInterfaces().has(address.toNormalizedString());
}

const parsedRanges = new WeakMap<TargetPolicy, { allowed: Cidr[]; own: Cidr[] }>();

function rangesOf(policy: TargetPolicy): { allowed: Cidr[]; own: Cidr[] } {
  let ranges = parsedRanges.get(policy);
  if (ranges === undefined) {
    const own = (policy.ownAddresses ?? []).flatMap((text) => {
      if (text.includes('/')) return [parseCidr(text)];
      const address = parseAddress(text);
      if (address === undefined) return [];
      return formsOf(address).map((form): Cidr => [form, form.kind() === 'ipv4' ? 32 : 128]);
    });
    ranges = { allowed: policy.allowedCidrs.map(parseCidr), own };
    parsedRanges.set(policy, ranges);
  }
  return ranges;
}

/** Returns the names among the service's own addresses, in lower case and without a dot at the end. */
export function ownNames(policy: TargetPolicy): string[] {
  return (policy.ownAddresses ?? [])
    .filter((text) => isIP(text) === 0 && !text.includes('/'))
    .map(comparableName);
}

/** Returns a name in the form in which names are compared. */
export function comparableName(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}

function parseCidr(text: string): Cidr {
  if (!ipaddr.isValidCIDR(text)) throw new Error(`not a CIDR range: ${text}`);
  const [network, bits] = ipaddr.parseCIDR(text);
  // Mapped addresses are judged as IPv4, so a range of them has to be IPv4 too.
  if (network.kind() === 'ipv6' && (network as ipaddr.IPv6).isIPv4MappedAddress() && bits >= 96) {
    return [(network as ipaddr.IPv6).toIPv4Address(), bits - 96];
  }
  return [network, bits];
}

/** Interfaces come and go (containers, VPNs); asking costs a system call per interface. */
const interfacesKeptMs = 30_000;
let interfaces: { readAtMs: number; addresses: ReadonlySet<string> } | undefined;

function addressesOfInterfaces(): ReadonlySet<string> {
  const nowMs = Date.now();
  if (interfaces === undefined || nowMs - interfaces.readAtMs > interfacesKeptMs) {
    const addresses = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .flatMap(({ address }) => {
        const parsed = parseAddress(address);
        return parsed === undefined ? [] : formsOf(parsed).map((form) => form.toNormalizedString());
      });
    interfaces = { readAtMs: nowMs, addresses: new Set(addresses) };
  }
  return interfaces.addresses;
}
