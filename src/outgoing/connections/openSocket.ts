import { isIP, connect as netConnect, type Socket } from 'node:net';
import { checkServerIdentity, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { judgeAddress, type TargetPolicy } from '../address.js';
import { AttemptFailed } from '../attemptError.js';
import {
  dnsCode,
  type Names,
  type ResolvedAddress,
  ResolverSilent,
  saysUnknownHost,
} from '../names/resolve.js';
import { mayBeOurs, oursByCode, oursWhileConnecting } from '../ours.js';
import type { HasRoute } from './routes.js';

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
  names: Names;
  hasRoute: HasRoute;
  /** Certificate authorities in PEM instead of the built-in ones. */
  ca?: string;
}

/** A connection on its way. */
export interface Opening {
  /** Whether its name has no address yet. */
  isLookingUp(): boolean;
  /** Abandons the opening and destroys its socket. */
  abandon(): void;
}

/**
 * Opens a connection. Every address is judged before a SYN is sent, and the address
 * that was reached is judged again before a byte of TLS or HTTP is sent. The judged addresses are
 * the ones passed to the socket, so a name that changes its answer gains nothing.
 *
 * @param done is called once, with an {@link AttemptFailed} or the socket, unless the opening was abandoned
 */
export function openSocket(
  to: Destination,
  guard: Guard,
  done: (error: AttemptFailed | null, socket: Socket | null) => void,
): Opening {
  let abandoned = false;
  let lookingUp = true;
  let current: Socket | undefined;
  const hold = <S extends Socket>(socket: S): S => {
    // A second error may follow, which would end the process without a listener.
    socket.on('error', () => undefined);
    current = socket;
    lookingUp = false;
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
  return {
    isLookingUp: () => lookingUp,
    abandon: () => {
      abandoned = true;
      current?.destroy();
    },
  };
}

type Hold = <S extends Socket>(socket: S) => S;

async function open(to: Destination, guard: Guard, hold: Hold): Promise<Socket> {
  const addresses = await allowedAddresses(to, guard);
  const tcp = await connectTcp(to, addresses, hold).catch(async (error: Error) => {
    throw await connectFailed(error, addresses, guard);
  });
  refuseUnlessAllowed(tcp.remoteAddress ?? '', to.port, guard.policy);
  return to.secure ? startTls(to, guard, tcp, hold) : tcp;
}

async function allowedAddresses(to: Destination, guard: Guard): Promise<readonly ResolvedAddress[]> {
  const family = isIP(to.host);
  const found: readonly ResolvedAddress[] =
    family === 0 ? await lookUp(to.host, guard.names) : [{ address: to.host, family: family === 6 ? 6 : 4 }];
  for (const { address } of found) refuseUnlessAllowed(address, to.port, guard.policy);
  return found;
}

async function lookUp(host: string, names: Names): Promise<readonly ResolvedAddress[]> {
  let found: readonly ResolvedAddress[];
  try {
    found = await names.lookup(host);
  } catch (error) {
    const code = dnsCode(error) ?? 'unknown error';
    if (saysUnknownHost(error)) throw new AttemptFailed('dns', `no such host (${code})`);
    const ours = error instanceof ResolverSilent ? 'resolver' : oursByCode(code);
    throw new AttemptFailed('dns', `no answer (${code})`, ours);
  }
  if (found.length === 0) throw new AttemptFailed('dns', 'no such host (no addresses)');
  return found;
}

function refuseUnlessAllowed(address: string, port: number, policy: TargetPolicy): void {
  const verdict = judgeAddress(address, port, policy);
  if (verdict === 'not_public') throw new AttemptFailed('blocked_address', 'the address is not public');
  if (verdict === 'own_address')
    throw new AttemptFailed('blocked_address', 'the address belongs to this service');
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
    socket.once('error', reject);
    socket.once('close', () => reject(new AttemptFailed('connect', 'closed')));
  });
}

async function connectFailed(
  error: Error,
  addresses: readonly ResolvedAddress[],
  guard: Guard,
): Promise<AttemptFailed> {
  if (error instanceof AttemptFailed) return error;
  const code = codeOf(error);
  const tried = addresses.map(({ address }) => address);
  return new AttemptFailed('connect', code, await oursWhileConnecting(code, tried, guard.hasRoute));
}

function startTls(to: Destination, guard: Guard, tcp: Socket, hold: Hold): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const name = to.host.endsWith('.') ? to.host.slice(0, -1) : to.host;
    const socket = hold(
      tlsConnect({
        socket: tcp,
        // An IP literal must not go into SNI (RFC 6066 section 3), but the certificate must still name it.
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

/**
 * Returns only the code: messages may hold names and addresses. If several addresses were tried, a code that a receiver
 * caused takes precedence over one that this host may have caused.
 */
function codeOf(error: Error): string {
  if (!(error instanceof AggregateError)) return dnsCode(error) ?? 'unknown error';
  const codes = error.errors.map((one) => dnsCode(one) ?? 'unknown error');
  return codes.find((code) => !mayBeOurs(code)) ?? codes[0] ?? 'unknown error';
}
