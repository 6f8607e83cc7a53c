/** Says how an attempt fails, and whether the receiver or this host is the cause. */
import { createSocket } from 'node:dgram';
import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { type AttemptDetail, type AttemptError, connectDetail, dnsDetail } from './details.js';

/**
 * A failure of this process or its host:
 * - `descriptors`: the process or the system has no file descriptor or no memory for a socket
 * - `resolver`: the resolver does not answer anyone (see names.ts); checking this may take up to a second more than an attempt
 * - `network`: no interface, no route to anywhere, or no local port left
 * - `outside`: none of the receivers of several accounts that answered today is reached, this one among them (see reach.ts)
 * - `proxy`: the outgoing proxy is not reached, is silent or refuses (see proxy.ts)
 * - `stalled`: the process stood still for so long that the request may no longer be sent
 */
export const ourFailures = ['descriptors', 'resolver', 'network', 'outside', 'proxy', 'stalled'] as const;
export type Ours = (typeof ourFailures)[number];

export interface Failure {
  error: AttemptError;
  /** What went wrong, below the class. */
  detail?: AttemptDetail;
  /** Set if the failure is an own failure of this process or host, not the receiver's. */
  ours?: Ours;
  /** More about an own failure, for operators. */
  why?: string;
}

/** An attempt that failed before there was an answer. */
export class AttemptFailed extends Error {
  override name = 'AttemptFailed';
  constructor(readonly failure: Failure) {
    super(failure.error);
  }
}

/** Returns the `code` of an error. Its message is not for logs and people: it may hold names and addresses. */
export function codeOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : 'unknown error';
}

const descriptorCodes = new Set(['EMFILE', 'ENFILE', 'ENOMEM', 'ENOBUFS']);
const routeCodes = new Set(['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL']);

/** Returns whether a lookup failed because the name has no address, rather than because there was no answer. */
export const saysUnknownHost = ({ detail }: Failure) => detail === 'no_such_name' || detail === 'no_address';

export function lookupFailed(error: unknown): AttemptFailed {
  if (error instanceof AttemptFailed) return error;
  const code = codeOf(error);
  return new AttemptFailed({ error: 'dns', detail: dnsDetail(code), ours: oursByCode(code) });
}

/**
 * Translates the error of a connection that could not be opened. "Unreachable" has three causes with the same codes, and
 * the kernel's routes distinguish them:
 * - there is a route to the address: a router or a neighbour reported it, which is the receiver's
 *   failure; but EADDRNOTAVAIL then means that all local ports are taken, which is ours
 * - there is no route to it, but one to other addresses: the receiver's failure (such as one with IPv6 only, while
 *   this host has only IPv4)
 * - there is no route to anywhere, in either family: ours
 * @param tried all addresses that were tried
 */
export async function connectFailed(error: unknown, tried: readonly LookupAddress[], hasRoute: HasRoute) {
  const codes: string[] = (error instanceof AggregateError ? error.errors : [error]).map(codeOf);
  // Of several addresses, the receiver's code takes precedence over one that this host may have caused.
  const code = codes.find((code) => !routeCodes.has(code) && !oursByCode(code)) ?? codes[0] ?? '';
  const failed = (ours?: Ours) => new AttemptFailed({ error: 'connect', detail: connectDetail(code), ours });
  if (!routeCodes.has(code)) return failed(oursByCode(code));
  for (const { address } of tried)
    if (await hasRoute(address)) return failed(code === 'EADDRNOTAVAIL' ? 'network' : undefined);
  for (const address of anywhere) if (await hasRoute(address)) return failed();
  return failed('network');
}

/** Returns the cause of an own failure that its code alone identifies. */
export function oursByCode(code: string): Ours | undefined {
  if (descriptorCodes.has(code)) return 'descriptors';
  return code === 'ENETDOWN' ? 'network' : undefined;
}

/** Public addresses that belong to nobody: the blocks for documentation (RFC 5737, RFC 3849). */
export const anywhere = ['203.0.113.1', '2001:db8::1'];

/** Returns whether the kernel has a route, and an address of this host, for a connection to this IP address. */
export type HasRoute = (address: string) => Promise<boolean>;

const noRouteCodes = new Set([...routeCodes, 'EAFNOSUPPORT', 'ENETDOWN']);

/**
 * Asks the kernel by connecting a datagram socket, which looks up the route and sends nothing. Any other
 * error counts as a route, so that a receiver is not excused by mistake.
 */
export const hasRoute: HasRoute = async (address) => {
  const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
  try {
    socket.connect(443, address);
    await once(socket, 'connect');
    return true;
  } catch (error) {
    return !noRouteCodes.has(codeOf(error));
  } finally {
    socket.close();
  }
};
