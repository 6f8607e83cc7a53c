import type { IncomingMessage } from 'node:http';
import ipaddr from 'ipaddr.js';
import { isInside, parseCidr } from '../outgoing/address.js';

/** More proxies in a row than anybody has. A header of 32 KiB could name 4,000, each compared with every range. */
const hopsAtMost = 16;

/**
 * Returns the address of a request's caller. Proxies within `trusted` are believed about their caller: X-Forwarded-For
 * is read from its end as long as each reporting address is trusted.
 */
export function clientAddress(req: IncomingMessage, trusted: readonly string[]): string {
  let address = normal(req.socket.remoteAddress ?? '') ?? 'unknown';
  if (trusted.length === 0) return address;
  const hops = String(req.headers['x-forwarded-for'] ?? '').split(',');
  for (const hop of hops.slice(-hopsAtMost).reverse()) {
    const before = normal(hop.trim());
    if (!before || !isTrusted(address, trusted)) break;
    address = before;
  }
  return address;
}

export const isFromTrustedProxy = (req: IncomingMessage, trusted: readonly string[]): boolean =>
  isTrusted(normal(req.socket.remoteAddress ?? '') ?? '', trusted);

/** Returns the range of one caller: an IPv4 address, or the /64 of an IPv6 address, which one machine may use entirely. */
export function networkOf(address: string): string {
  if (!ipaddr.IPv6.isValid(address)) return address;
  return `${ipaddr.IPv6.networkAddressFromCIDR(`${address}/64`)}/64`;
}

/** Some proxies report a port or brackets, too: `203.0.113.7:443`, `[2001:db8::1]:443` (Azure Application Gateway). */
function normal(reported: string): string | undefined {
  const address = reported.replace(/^([\d.]+):\d+$/, '$1').replace(/^\[(.+)\](:\d+)?$/, '$1');
  return ipaddr.isValid(address) ? ipaddr.process(address).toString() : undefined;
}

const isTrusted = (address: string, ranges: readonly string[]): boolean =>
  ipaddr.isValid(address) && isInside(ipaddr.process(address), ranges.map(parseCidr));
