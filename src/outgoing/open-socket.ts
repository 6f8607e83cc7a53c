import { isIP, connect as netConnect, type Socket } from 'node:net';
import { checkServerIdentity, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { judgeAddress, type TargetPolicy } from './address.js';
import { AttemptFailed } from './attempt-error.js';
import { dnsCode, type Lookup, type ResolvedAddress, saysUnknownHost } from './resolve.js';

/** One origin as a connection sees it. */
export interface Destination {
  /** Name or IP literal without brackets. */
  host: string;
  port: number;
  secure: boolean;
  /** The TLS session of an earlier connection to the same origin; replaced by newer ones. */
  session?: Buffer;
}

export interface Guard {
  policy: TargetPolicy;
  lookup: Lookup;
  /** Certificate authorities in PEM instead of the built-in ones. */
  ca?: string;
}

/**
 * Opens a connection that may be written to. Every address is judged before a SYN leaves, and the one
 * that was reached is judged again before a byte of TLS or HTTP does: the addresses that were judged are
 * the ones handed to the socket, so a name that changes its answer gains nothing.
 *
 * @param done is called once, with an {@link AttemptFailed} or the socket, unless the opening was abandoned
 * @returns abandons the opening and destroys what there is of it
 */
export function openSocket(
  to: Destination,
  guard: Guard,
  done: (error: AttemptFailed | null, socket: Socket | null) => void,
): () => void {
  let abandoned = false;
  let current: Socket | undefined;
  const hold = <S extends Socket>(socket: S): S => {
    // An error may come after the one that was waited for, and would end the process without a listener.
    socket.on('error', () => undefined);
    current = socket;
    if (abandoned) socket.destroy();
    return socket;
  };
  open(to, guard, hold).then(
    (socket) => (abandoned ? socket.destroy() : done(null, socket)),
    (error: unknown) => {
      current?.destroy();
      if (!abandoned)
        done(error instanceof AttemptFailed ? error : new AttemptFailed('connect', 'failed'), null);
    },
  );
  return () => {
    abandoned = true;
    current?.destroy();
  };
}

type Hold = <S extends Socket>(socket: S) => S;

async function open(to: Destination, guard: Guard, hold: Hold): Promise<Socket> {
  const addresses = await allowedAddresses(to, guard);
  const tcp = await connectTcp(to, addresses, hold);
  refuseUnlessAllowed(tcp.remoteAddress ?? '', to.port, guard.policy);
  return to.secure ? startTls(to, guard, tcp, hold) : tcp;
}

async function allowedAddresses(to: Destination, guard: Guard): Promise<readonly ResolvedAddress[]> {
  const family = isIP(to.host);
  const found: readonly ResolvedAddress[] =
    family === 0 ? await lookUp(to.host, guard.lookup) : [{ address: to.host, family: family === 6 ? 6 : 4 }];
  for (const { address } of found) refuseUnlessAllowed(address, to.port, guard.policy);
  return found;
}

async function lookUp(host: string, lookup: Lookup): Promise<readonly ResolvedAddress[]> {
  let found: readonly ResolvedAddress[];
  try {
    found = await lookup(host);
  } catch (error) {
    const code = dnsCode(error) ?? 'unknown error';
    throw new AttemptFailed('dns', saysUnknownHost(error) ? `no such host (${code})` : `no answer (${code})`);
  }
  if (found.length === 0) throw new AttemptFailed('dns', 'no such host (no addresses)');
  return found;
}

function refuseUnlessAllowed(address: string, port: number, policy: TargetPolicy): void {
  const verdict = judgeAddress(address, port, policy);
  if (verdict === 'not_public') throw new AttemptFailed('blocked_address', 'the address is not public');
  if (verdict === 'own_address')
    throw new AttemptFailed('blocked_address', 'the address is one of the service');
}

function connectTcp(to: Destination, addresses: readonly ResolvedAddress[], hold: Hold): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = hold(
      netConnect({
        host: to.host,
        port: to.port,
        noDelay: true,
        keepAlive: true,
        autoSelectFamily: addresses.length > 1,
        // Node's 250 ms for each address but the last is less than one lost SYN.
        autoSelectFamilyAttemptTimeout: 1_500,
        lookup: (_host, options, found) => {
          if (options.all) found(null, [...addresses]);
          else found(null, addresses[0]?.address ?? '', addresses[0]?.family);
        },
      }),
    );
    socket.once('connect', () => resolve(socket));
    socket.once('error', (error) => reject(new AttemptFailed('connect', codeOf(error))));
    socket.once('close', () => reject(new AttemptFailed('connect', 'closed')));
  });
}

function startTls(to: Destination, guard: Guard, tcp: Socket, hold: Hold): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const name = to.host.endsWith('.') ? to.host.slice(0, -1) : to.host;
    const socket = hold(
      tlsConnect({
        socket: tcp,
        // An IP literal must not go into SNI (RFC 6066 section 3), the certificate has to name it all the same.
        servername: isIP(name) === 0 ? name : '',
        checkServerIdentity: (_servername, certificate) => checkServerIdentity(name, certificate),
        ALPNProtocols: ['http/1.1'],
        ...(to.session === undefined ? {} : { session: to.session }),
        ...(guard.ca === undefined ? {} : { ca: guard.ca }),
      }),
    );
    socket.on('session', (session) => {
      to.session = session;
    });
    socket.once('secureConnect', () => resolve(socket));
    socket.once('error', (error) => {
      // A ticket that the server no longer likes must not fail the next attempt too.
      delete to.session;
      reject(new AttemptFailed('tls', codeOf(error)));
    });
    socket.once('close', () => reject(new AttemptFailed('tls', 'closed during the handshake')));
  });
}

/** The code only: messages may hold names and addresses. */
function codeOf(error: Error): string {
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return codeOf(error.errors[0]);
  return dnsCode(error) ?? 'unknown error';
}
