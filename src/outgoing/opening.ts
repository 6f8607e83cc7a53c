import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import { addAbortSignal } from 'node:stream';
import {
  checkServerIdentity,
  createSecureContext,
  type SecureContext,
  connect as tlsConnect,
} from 'node:tls';
import { withTimeout } from '../promises.js';
import { judgeAddress, type TargetPolicy, withOwnNames } from './address.js';
import { type DetailOf, tlsDetail } from './details.js';
import {
  AttemptFailed,
  codeOf,
  connectFailed,
  type HasRoute,
  lookupFailed,
  saysUnknownHost,
} from './failures.js';
import { inOrder, type Lesson } from './lessons.js';
import type { FoundAddress, Names } from './names.js';
import { type OutgoingProxy, otherAfterMs } from './proxy.js';
import type { Reach } from './reach.js';

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
  readonly lesson: Lesson;
  /** When an answer began last (`performance.now()`). */
  answeredAtMs?: number;
  /** The newest addresses of the name, and until when connections may rely on them (`performance.now()`). */
  found?: { addresses: readonly FoundAddress[]; untilMs: number };
}

export interface Guard {
  policy: TargetPolicy;
  names: Names;
  hasRoute: HasRoute;
  reach: Reach;
  /** The certificate authorities that are trusted, if not those of Node; `short`: for a short first message. */
  trust?: { usual: SecureContext; short: SecureContext };
  /** The only way out, if there is one. */
  proxy?: OutgoingProxy;
  /** The policy with the addresses of the service's own names, and until when they count (`performance.now()`). */
  known?: { policy: Promise<TargetPolicy>; untilMs: number };
  /** The last addresses that were found for each of the service's own names. */
  own?: Map<string, readonly LookupAddress[]>;
}

/** Where an attempt is: the details of `timeout`. */
export type Phase = DetailOf<'timeout'>;

/** Who waits for a socket. */
interface Opener {
  phase: Phase;
  /** The receiver's, once TCP is connected; undefined if a proxy resolved the name. */
  remoteAddress: string | undefined;
  /** The first message of TLS must be short. */
  isShort: boolean;
  /** The bytes of TLS that were sent and that came, from the beginning of the handshake. */
  handshake: (() => { sent: number; came: number }) | undefined;
  /** Closes the socket, and while it is being opened whatever of it is there. */
  signal: AbortSignal;
}

/** Finds and judges the addresses of an origin; none if a proxy looks up its name. @throws AttemptFailed */
export async function findAddresses(to: Destination, guard: Guard): Promise<Required<Destination>['found']> {
  const { host } = to;
  const [addresses, policy] = await Promise.all([lookUp(host, guard), policyOfNow(guard)]);
  for (const { address } of addresses) refuseUnlessAllowed(address, to, policy);
  const ttlMs = Math.min(...addresses.map(({ ttlSeconds }) => (ttlSeconds ?? 60) * 1000), ageMs.most);
  to.found = { addresses, untilMs: performance.now() + Math.max(ttlMs, ageMs.least) };
  return to.found;
}

async function lookUp(host: string, { names, proxy }: Guard): Promise<readonly FoundAddress[]> {
  const family = isIP(host);
  if (family !== 0) return [{ address: host, family }];
  if (proxy?.resolves) return [];
  return names.lookup(host).catch((error) => Promise.reject(lookupFailed(error)));
}

/**
 * Opens a socket to one of the judged addresses of an origin, so a name that changes its answer gains nothing. The address that was
 * reached is judged again before a byte of TLS or HTTP is sent.
 * @param session of TLS that the server may resume
 * @throws AttemptFailed
 */
export async function openSocket(
  to: Destination,
  addresses: readonly LookupAddress[],
  guard: Guard,
  opener: Opener,
  session: Buffer | undefined,
): Promise<Socket> {
  opener.phase = 'during_connect';
  const { tcp, address } = await connectTcp(to, inOrder(to.lesson, addresses), guard, opener.signal);
  opener.remoteAddress = address;
  if (!to.secure) return tcp;
  opener.phase = 'during_handshake';
  const [sent, came] = [tcp.bytesWritten, tcp.bytesRead];
  opener.handshake = () => ({ sent: tcp.bytesWritten - sent, came: tcp.bytesRead - came });
  return startTls(tcp, to, guard, session, opener.isShort);
}

/** The key shares of a first message of less than 400 bytes: without one against quantum computers. */
const shortCurves = 'X25519:prime256v1:secp384r1:secp521r1';

/** Makes what connections share that trust these authorities, in PEM. */
export const trustOf = (ca: string | string[]) => ({
  usual: createSecureContext({ ca }),
  short: createSecureContext({ ca, ecdhCurve: shortCurves }),
});

/** A name is asked and judged again after its TTL, within these bounds. */
const ageMs = { least: 5_000, most: 60_000 };
/** A request waits so long for the name's answer; a later one counts for the next request. */
const askedWithinMs = 250;

/**
 * Returns whether a new connection might still lead to this address. If the TTL of the name has passed, it is asked and judged again,
 * once for all connections of the origin. A name server that is silent or broken changes nothing.
 * @param address undefined if a proxy resolved the name
 */
export async function isCurrent(address: string | undefined, to: Destination, guard: Guard) {
  const { found } = to;
  if (found === undefined) return true;
  if (performance.now() > found.untilMs) {
    found.untilMs = performance.now() + ageMs.least;
    const asked = findAddresses(to, guard).catch(({ failure }: AttemptFailed) => {
      if (failure.error !== 'dns' || saysUnknownHost(failure)) found.addresses = [];
    });
    await withTimeout(asked, askedWithinMs, () => {});
  }
  return to.found?.addresses.some((one) => one.address === address) === true;
}

/** Asks once a minute, because a receiver's name may lead to the service. A late answer, or an error, leaves the addresses of before. */
function policyOfNow(guard: Guard): Promise<TargetPolicy> {
  const { policy, names, known } = guard;
  guard.own ??= new Map();
  const { own } = guard;
  const lookup = async (name: string) => {
    const found = await names.lookup(name).catch((err: unknown) => {
      if (!own.has(name)) throw err;
    });
    if (found) own.set(name, found);
    return own.get(name) ?? [];
  };
  const nowMs = performance.now();
  if (known !== undefined && nowMs < known.untilMs) return known.policy;
  const inTime = withTimeout(withOwnNames(policy, lookup), askedWithinMs, () => undefined);
  const newest = inTime.then((found) => found ?? known?.policy ?? policy);
  guard.known = { policy: newest, untilMs: nowMs + ageMs.most };
  return newest;
}

function refuseUnlessAllowed(address: string, { port }: Destination, policy: TargetPolicy): void {
  const verdict = judgeAddress(address, port, policy);
  if (verdict !== 'allowed') throw new AttemptFailed({ error: 'blocked_address', detail: verdict });
}

async function connectTcp(
  to: Destination,
  addresses: readonly LookupAddress[],
  guard: Guard,
  signal: AbortSignal,
): Promise<{ tcp: Socket; address: string | undefined }> {
  const { host, port } = to;
  signal.throwIfAborted();
  if (guard.proxy !== undefined) {
    const hosts = addresses.length === 0 ? [host] : addresses.map(({ address }) => address);
    const tunnel = await guard.proxy.connect(hosts, port, signal);
    return { tcp: tunnel.socket, address: isIP(tunnel.host) === 0 ? undefined : tunnel.host };
  }
  const socket = netConnect({
    host,
    port,
    noDelay: true,
    keepAlive: true,
    // Happy Eyeballs asks for all addresses. Node's 250 ms for each but the last is less than one lost SYN.
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: otherAfterMs,
    lookup: (_host, _options, found) => found(null, [...addresses]),
  });
  // The option `signal` of Node would keep a listener, and with it the socket, once that is closed.
  addAbortSignal(signal, socket).on('error', ignoreSecond);
  try {
    await once(socket, 'connect');
  } catch (error) {
    throw await connectFailed(error, addresses, guard.hasRoute);
  }
  const address = socket.remoteAddress;
  // The kernel no longer knows it if the receiver has reset the connection since.
  if (address === undefined) throw new AttemptFailed({ error: 'connect', detail: 'reset' });
  refuseUnlessAllowed(address, to, guard.policy);
  return { tcp: socket, address };
}

async function startTls(
  tcp: Socket,
  to: Destination,
  { trust }: Guard,
  session: Buffer | undefined,
  isShort: boolean,
) {
  const name = to.host.replace(/\.$/, '');
  const socket = tlsConnect({
    socket: tcp,
    // An IP literal must not go into SNI (RFC 6066 section 3), but the certificate must still name it.
    servername: isIP(name) === 0 ? name : '',
    checkServerIdentity: (_servername, certificate) => checkServerIdentity(name, certificate),
    ALPNProtocols: ['http/1.1'],
    session,
    secureContext: isShort ? trust?.short : trust?.usual,
    ...(isShort && { ecdhCurve: shortCurves }),
  });
  socket.on('error', ignoreSecond).on('session', (newer) => {
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
    const hasShownOne = Object.keys(socket.getPeerCertificate() ?? {}).length > 0;
    const isAboutOurs = isLate && hasShownOne;
    throw new AttemptFailed({ error: 'tls', detail: isAboutOurs ? 'client_certificate_wanted' : detail });
  }
}

/** A second error may follow, which would end the process without a listener. */
const ignoreSecond = () => undefined;
