import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import { checkServerIdentity, type SecureContext, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { judgeAddress, type TargetPolicy } from './address.js';
import { type DetailOf, tlsDetail } from './details.js';
import { AttemptFailed, codeOf, connectFailed, type HasRoute, lookupFailed } from './failures.js';
import type { FoundAddress, Names } from './names.js';
import type { OutgoingProxy } from './proxy.js';

/** One origin as a connection sees it. */
export interface Destination {
  /** `https://example.com:8443` */
  readonly name: string;
  /** Name or IP literal without brackets. */
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
  /** The TLS session of an earlier connection to the same origin; replaced by newer ones. */
  session?: Buffer;
  /** The newest addresses of the name, and until when other connections may rely on them (`performance.now()`). */
  found?: { addresses: readonly FoundAddress[]; untilMs: number };
}

export interface Guard {
  policy: TargetPolicy;
  names: Names;
  hasRoute: HasRoute;
  /** The certificate authorities that are trusted, if not those of Node. */
  trust?: SecureContext;
  /** The only way out, if there is one. */
  proxy?: OutgoingProxy;
}

/** Where an attempt is: the details of `timeout`. */
export type Phase = DetailOf<'timeout'>;

/** Told about a socket that is being opened. */
export interface Progress {
  onPhase(phase: Phase): void;
  /** Another socket is the newest: TCP, then TLS over it. Whoever no longer wants it destroys it here. */
  onSocket(socket: Socket): void;
}

export interface Opened {
  socket: Socket;
  /** The receiver's; undefined if a proxy resolved the name. */
  address: string | undefined;
  /** The TLS session that this socket resumed. */
  resumed?: Buffer;
}

/**
 * Opens a socket to an origin. Every address is judged before a SYN is sent, and the address that was reached is judged again
 * before a byte of TLS or HTTP is sent. The judged addresses are the ones passed to the socket, so a name that changes
 * its answer gains nothing.
 *
 * A server that refuses to resume a TLS session (another machine behind the same name may have made it) is asked once more
 * without the session, which is forgotten.
 * @throws AttemptFailed
 */
export async function openSocket(to: Destination, guard: Guard, progress: Progress): Promise<Opened> {
  progress.onPhase('during_lookup');
  const addresses = isResolvedByProxy(to, guard) ? [] : await findAddresses(to, guard);
  const connect = async (session?: Buffer): Promise<Opened> => {
    progress.onPhase('during_connect');
    const { tcp, address } = await connectTcp(to, addresses, guard, progress);
    if (!to.secure) return { socket: tcp, address };
    progress.onPhase('during_handshake');
    const socket = await startTls(tcp, to, guard, progress, session);
    return { socket, address, resumed: socket.isSessionReused() ? session : undefined };
  };
  const { session } = to;
  try {
    return await connect(session);
  } catch (error) {
    if (session === undefined || !(error instanceof AttemptFailed && error.error === 'tls')) throw error;
    forgetSession(to, session);
    return connect();
  }
}

/** Offers this session no more. */
export function forgetSession(to: Destination, session: Buffer): void {
  if (to.session === session) to.session = undefined;
}

/** A connection whose address is no longer one of its name is given up: after about the TTL, within these bounds. */
const ageMs = { least: 5_000, most: 60_000 };

/**
 * Returns in how many ms a connection asks its name again; undefined for an IP literal, which cannot move. Connections of one origin
 * share an answer for a quarter of the TTL, so that a change is noticed within the whole of it.
 */
export function askAgainMs({ host, found }: Destination): number | undefined {
  return isIP(host) === 0 ? lifeMs(found?.addresses ?? []) * (0.5 + 0.25 * Math.random()) : undefined;
}

function lifeMs(addresses: readonly FoundAddress[]): number {
  const ttlMs = Math.min(...addresses.map(({ ttlSeconds }) => (ttlSeconds ?? 60) * 1000), ageMs.most);
  return Math.max(ttlMs, ageMs.least);
}

/**
 * Asks and judges a name again. @returns whether a new connection might still lead to this address. A name server that is silent or
 * broken changes nothing.
 */
export async function stillLeadsTo(
  address: string | undefined,
  to: Destination,
  guard: Guard,
): Promise<boolean> {
  if (address === undefined) return false;
  try {
    const isFresh = to.found !== undefined && performance.now() < to.found.untilMs;
    const addresses = isFresh ? to.found?.addresses : await findAddresses(to, guard);
    return addresses?.some((one) => one.address === address) ?? false;
  } catch (error) {
    const { error: kind, detail } = error as AttemptFailed;
    return kind === 'dns' && detail !== 'no_such_name' && detail !== 'no_address';
  }
}

const isResolvedByProxy = ({ host }: Destination, { proxy }: Guard): boolean =>
  proxy?.resolves === true && isIP(host) === 0;

async function findAddresses(to: Destination, guard: Guard): Promise<readonly FoundAddress[]> {
  const { host } = to;
  const family = isIP(host);
  const found =
    family === 0
      ? await guard.names.lookup(host).catch((error) => Promise.reject(lookupFailed(error)))
      : [{ address: host, family }];
  for (const { address } of found) refuseUnlessAllowed(address, to, guard);
  to.found = { addresses: found, untilMs: performance.now() + lifeMs(found) / 4 };
  return found;
}

function refuseUnlessAllowed(address: string, { port }: Destination, { policy }: Guard): void {
  const verdict = judgeAddress(address, port, policy);
  if (verdict !== 'allowed') throw new AttemptFailed('blocked_address', { detail: verdict });
}

async function connectTcp(
  to: Destination,
  addresses: readonly LookupAddress[],
  guard: Guard,
  progress: Progress,
): Promise<{ tcp: Socket; address: string | undefined }> {
  const { host, port } = to;
  if (guard.proxy !== undefined) {
    const hosts = addresses.length === 0 ? [host] : addresses.map(({ address }) => address);
    const tunnel = await guard.proxy.connect(hosts, port, (socket) => progress.onSocket(socket));
    return { tcp: tunnel.socket, address: isIP(tunnel.host) === 0 ? undefined : tunnel.host };
  }
  const socket = netConnect({
    host,
    port,
    noDelay: true,
    keepAlive: true,
    // Happy Eyeballs asks for all addresses. Node's 250 ms for each but the last is less than one lost SYN.
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: 1_500,
    lookup: (_host, _options, found) => found(null, [...addresses]),
  });
  watch(socket, progress);
  try {
    await once(socket, 'connect');
  } catch (error) {
    throw await connectFailed(error, addresses, guard.hasRoute);
  }
  refuseUnlessAllowed(socket.remoteAddress ?? '', to, guard);
  return { tcp: socket, address: socket.remoteAddress };
}

async function startTls(
  tcp: Socket,
  to: Destination,
  { trust }: Guard,
  progress: Progress,
  session: Buffer | undefined,
): Promise<TLSSocket> {
  const name = to.host.replace(/\.$/, '');
  const socket = tlsConnect({
    socket: tcp,
    // An IP literal must not go into SNI (RFC 6066 section 3), but the certificate must still name it.
    servername: isIP(name) === 0 ? name : '',
    checkServerIdentity: (_servername, certificate) => checkServerIdentity(name, certificate),
    ALPNProtocols: ['http/1.1'],
    session,
    secureContext: trust,
  });
  watch(socket, progress);
  socket.on('session', (newer) => {
    to.session = newer;
  });
  try {
    await once(socket, 'secureConnect');
    return socket;
  } catch (error) {
    const detail = tlsDetail(codeOf(error));
    // With TLS 1.2 a server that wants a certificate may end with the alert that also says that no cipher fits,
    // but only after it has shown its own certificate.
    const isLate = detail === 'tls_cipher' || detail === 'handshake_broken';
    const isWanted = isLate && hasShownCertificate(socket);
    throw new AttemptFailed('tls', { detail: isWanted ? 'client_certificate_wanted' : detail });
  }
}

function hasShownCertificate(socket: TLSSocket): boolean {
  return Object.keys(socket.getPeerCertificate() ?? {}).length > 0;
}

function watch(socket: Socket, progress: Progress): void {
  // A second error may follow, which would end the process without a listener.
  socket.on('error', () => undefined);
  progress.onSocket(socket);
}
