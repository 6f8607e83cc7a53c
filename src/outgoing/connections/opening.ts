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

/**
 * A connection on its way. Every address is judged before a SYN is sent, and the address
 * that was reached is judged again before a byte of TLS or HTTP is sent. The judged addresses are
 * the ones passed to the socket, so a name that changes its answer gains nothing.
 */
export class Opening {
  #socket: Socket | undefined;
  #isAbandoned = false;

  constructor(
    readonly to: Destination,
    readonly guard: Guard,
  ) {}

  /** Whether its name has no address yet. */
  get isLookingUp(): boolean {
    return this.#socket === undefined;
  }

  /** Opens the connection; call it once. @throws AttemptFailed */
  async open(): Promise<Socket> {
    try {
      const addresses = await allowedAddresses(this.to, this.guard);
      const tcp = await this.#connectTcp(addresses);
      refuseUnlessAllowed(tcp.remoteAddress ?? '', this.to.port, this.guard.policy);
      return this.to.secure ? await this.#startTls(tcp) : tcp;
    } catch (error) {
      this.#socket?.destroy();
      throw error instanceof AttemptFailed ? error : new AttemptFailed('connect', 'failed');
    }
  }

  /** Destroys its socket, also one that is made later. */
  abandon(): void {
    this.#isAbandoned = true;
    this.#socket?.destroy();
  }

  #connectTcp(addresses: readonly ResolvedAddress[]): Promise<Socket> {
    const { host, port } = this.to;
    const connected = new Promise<Socket>((resolve, reject) => {
      const socket = this.#keep(
        netConnect({
          host,
          port,
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
    return connected.catch(async (error: Error) => {
      throw await connectFailed(error, addresses, this.guard);
    });
  }

  #startTls(tcp: Socket): Promise<TLSSocket> {
    const { to, guard } = this;
    return new Promise((resolve, reject) => {
      const name = to.host.endsWith('.') ? to.host.slice(0, -1) : to.host;
      const socket = this.#keep(
        tlsConnect({
          socket: tcp,
          // An IP literal must not go into SNI (RFC 6066 section 3), but the certificate must still name it.
          servername: isIP(name) === 0 ? name : '',
          checkServerIdentity: (_servername, certificate) => checkServerIdentity(name, certificate),
          ALPNProtocols: ['http/1.1'],
          session: to.session,
          ca: guard.ca,
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

  #keep<S extends Socket>(socket: S): S {
    // A second error may follow, which would end the process without a listener.
    socket.on('error', () => undefined);
    this.#socket = socket;
    if (this.#isAbandoned) socket.destroy();
    return socket;
  }
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

/**
 * Returns only the code: messages may hold names and addresses. If several addresses were tried, a code that a receiver
 * caused takes precedence over one that this host may have caused.
 */
function codeOf(error: Error): string {
  if (!(error instanceof AggregateError)) return dnsCode(error) ?? 'unknown error';
  const codes = error.errors.map((one) => dnsCode(one) ?? 'unknown error');
  return codes.find((code) => !mayBeOurs(code)) ?? codes[0] ?? 'unknown error';
}
