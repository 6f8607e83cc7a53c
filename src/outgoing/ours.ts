import type { HasRoute } from './connections/routes.js';

/**
 * A failure of this process or its host:
 * - `descriptors`: the process or the system has no file descriptor or no memory for a socket
 * - `resolver`: the resolver does not answer anyone (see dns.ts)
 * - `network`: no interface, no route to anywhere, or no local port left
 */
export const ourFailures = ['descriptors', 'resolver', 'network'] as const;
export type Ours = (typeof ourFailures)[number];

const descriptorCodes = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS']);
const routeCodes = new Set(['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL']);

/** Returns the cause of an own failure that its code alone identifies. */
export function oursByCode(code: string): Ours | undefined {
  if (descriptorCodes.has(code)) return 'descriptors';
  return code === 'ENETDOWN' ? 'network' : undefined;
}

/** Returns whether a failure may be ours: the codes of the receiver's other addresses, or the routes, decide. */
export function mayBeOurs(code: string): boolean {
  return routeCodes.has(code) || oursByCode(code) !== undefined;
}

/**
 * Decides whose failure it is when a connection cannot be opened. "Unreachable" has three causes with the same codes, and
 * the kernel's routes distinguish them:
 * - there is a route to the address: a router or a neighbour reported it, which is the receiver's
 *   failure; but EADDRNOTAVAIL then means that all local ports are taken, which is ours
 * - there is no route to it, but one to other addresses: the receiver's failure (such as one with IPv6 only, while
 *   this host has only IPv4)
 * - there is no route to anywhere, in either family: ours
 *
 * @param addresses all that were tried
 */
export async function oursWhileConnecting(
  code: string,
  addresses: readonly string[],
  hasRoute: HasRoute,
): Promise<Ours | undefined> {
  if (!routeCodes.has(code)) return oursByCode(code);
  for (const address of addresses) {
    if (await hasRoute(address)) return code === 'EADDRNOTAVAIL' ? 'network' : undefined;
  }
  for (const address of anywhere) if (await hasRoute(address)) return undefined;
  return 'network';
}

/** Public addresses that belong to nobody: the blocks for documentation (RFC 5737, RFC 3849). */
const anywhere = ['203.0.113.1', '2001:db8::1'];
