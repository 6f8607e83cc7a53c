import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import ipaddr from 'ipaddr.js';
import type { Config } from '../config.js';

/** Says where notifications may go: to public addresses, and to those that an operator allowed. */
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
  /** Names are looked up by a proxy: no address of theirs is known here. */
  namesByProxy?: boolean;
}

type AddressVerdict = 'allowed' | 'not_public' | 'own_address';

type Address = ipaddr.IPv4 | ipaddr.IPv6;
type Cidr = [Address, number];

/** Reads from the settings where notifications may go. @param ownPort another port of this machine that is the service's own */
export function readTargetPolicy(config: Config, ownPort?: number): TargetPolicy {
  const { ALLOW_HTTP_TARGETS, ALLOWED_TARGET_CIDRS, OWN_ADDRESSES, OWN_PORTS, PORT, ADMIN_PORT } = config;
  return {
    allowHttp: ALLOW_HTTP_TARGETS,
    allowedCidrs: ALLOWED_TARGET_CIDRS,
    ownPorts: [PORT, ADMIN_PORT, ...OWN_PORTS, ...(ownPort === undefined ? [] : [ownPort])],
    ownAddresses: OWN_ADDRESSES,
    namesByProxy: config.OUTGOING_PROXY !== undefined && config.OUTGOING_PROXY_RESOLVES,
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
  const forms = formsOf(parsed);
  const allowed = policy.allowedCidrs.map(parseCidr);
  if (!forms.every((form) => isPublic(form) || isInside(form, allowed))) return 'not_public';
  const own = rangesOf(policy.ownAddresses ?? []);
  if (forms.some((form) => isInside(form, own))) return 'own_address';
  if (policy.ownPorts.includes(port) && forms.some(isOfThisMachine)) return 'own_address';
  return 'allowed';
}

function parseAddress(address: string): Address | undefined {
  // ipaddr.js alone would also take octal, hex and short forms.
  if (isIP(address) !== 6) return isIP(address) === 4 ? ipaddr.IPv4.parse(address) : undefined;
  // ipaddr.js reads the deprecated `::1.2.3.4` as `::ffff:1.2.3.4`, which is another address; a URL has groups only.
  const { hostname } = new URL(`http://[${address.replace(/%.*/, '')}]`);
  return ipaddr.IPv6.parse(hostname.slice(1, -1));
}

/**
 * Returns every address at which a packet to this one may end. An IPv4-mapped address and the well-known NAT64
 * prefix (RFC 6052) only spell the IPv4 address inside, so the inner address is judged. For a local NAT64
 * (RFC 8215) and interface identifiers of ISATAP (RFC 5214) both are judged. Other tunnels are not public.
 */
function formsOf(address: Address): Address[] {
  if (address instanceof ipaddr.IPv4) return [address];
  const inside = new ipaddr.IPv4(address.toByteArray().slice(12));
  if (address.isIPv4MappedAddress() || isInside(address, [wellKnownNat64])) return [inside];
  const [, , , , p4 = 0, p5] = address.parts;
  const isIsatap = (p4 & 0xfdff) === 0 && p5 === 0x5efe;
  return isIsatap || address.range() === 'rfc6052' ? [address, inside] : [address];
}

const wellKnownNat64: Cidr = ipaddr.parseCIDR('64:ff9b::/96');

const isPublic = (address: Address) => isInside(address, publicRanges) && !isInside(address, refusedRanges);

/** Where public addresses are. IANA has assigned only 2000::/3 of IPv6 as global unicast. */
export const publicRanges: readonly Cidr[] = [
  ipaddr.parseCIDR('0.0.0.0/0'),
  ipaddr.parseCIDR('2000::/3'),
  wellKnownNat64,
];

/**
 * Services of a cloud to its own machines at addresses that look public. All others that we know are in ranges that are
 * not public: 169.254.169.254, 100.100.100.200 (Alibaba), 192.0.0.192 (Oracle), fd00:ec2::254, fd20:ce::254.
 */
const ofClouds: Cidr[] = [
  // Azure: agents of the machine, DNS, health probes.
  '168.63.129.16/32',
  // IBM Cloud: infrastructure and service endpoints.
  '161.26.0.0/16',
  '166.8.0.0/14',
].map((range) => ipaddr.parseCIDR(range));

/** Every range inside them that is not public. The chart's NetworkPolicy is made of the same two lists. */
export const refusedRanges: readonly Cidr[] = [ipaddr.IPv4, ipaddr.IPv6]
  .map(({ prototype }) => prototype as unknown as { SpecialRanges: Record<string, Cidr | Cidr[]> })
  .flatMap(({ SpecialRanges }) => Object.values(SpecialRanges))
  .flatMap((ranges) => (Array.isArray(ranges[0]) ? (ranges as Cidr[]) : [ranges as Cidr]))
  .concat(ofClouds);

export const isInside = (address: Address, cidrs: readonly Cidr[]): boolean =>
  cidrs.some(([network, bits]) => network.kind() === address.kind() && address.match(network, bits));

function isOfThisMachine(address: Address): boolean {
  // The unspecified address connects to this machine.
  const isLocal = ['loopback', 'unspecified'].includes(address.range());
  return isLocal || isInside(address, rangesOf(machineAddresses()));
}

const machineAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap((list) => (list ?? []).map(({ address }) => address));

/** Returns an address of this machine that the internet can reach and that is not in this list of addresses and ranges, if there is one. */
export function publicAddressBeside(list: readonly string[]): string | undefined {
  const policy = { allowHttp: false, allowedCidrs: [], ownPorts: [], ownAddresses: list };
  return machineAddresses().find((address) => judgeAddress(address, 0, policy) === 'allowed');
}

/** Returns the ranges in a list, and of its addresses, each in all its forms; none for a name. */
function rangesOf(list: readonly string[]): Cidr[] {
  return list.flatMap((text): Cidr[] => {
    if (text.includes('/')) return [parseCidr(text)];
    const address = parseAddress(text);
    if (address === undefined) return [];
    return formsOf(address).map((form) => [form, form.kind() === 'ipv4' ? 32 : 128]);
  });
}

/** Returns the names among the service's own addresses, in lower case and without a dot at the end. */
export function ownNames(policy: TargetPolicy): string[] {
  return (policy.ownAddresses ?? [])
    .filter((text) => isIP(text) === 0 && !text.includes('/'))
    .map(comparableName);
}

/** Returns the policy with the addresses of the service's own names, of some of which none may be found. */
export async function withOwnNames(
  policy: TargetPolicy,
  lookup: (name: string) => Promise<readonly { address: string }[]>,
): Promise<TargetPolicy> {
  const answers = await Promise.allSettled(ownNames(policy).map(lookup));
  const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
  const ownAddresses = [...(policy.ownAddresses ?? []), ...found.map(({ address }) => address)];
  return { ...policy, ownAddresses };
}

export const comparableName = (name: string): string => name.toLowerCase().replace(/\.$/, '');

/** @throws Error naming a range that is not a CIDR */
export function parseCidr(text: string): Cidr {
  if (!ipaddr.isValidCIDR(text)) throw new Error(`not a CIDR range: ${text}`);
  const [network, bits] = ipaddr.parseCIDR(text);
  // Mapped addresses are judged as IPv4, so a range of them has to be IPv4 too.
  if (network instanceof ipaddr.IPv6 && network.isIPv4MappedAddress() && bits >= 96)
    return [network.toIPv4Address(), bits - 96];
  return [network, bits];
}
