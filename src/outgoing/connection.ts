import { isIP, connect as netConnect, type Socket } from 'node:net';
import { checkServerIdentity, type TLSSocket, connect as tlsConnect } from 'node:tls';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import { judgeAddress, type TargetPolicy } from './address.js';
import { type ResolvedAddress, saysUnknownHost } from './dns.js';
import { AttemptFailed, codeOf, connectFailed, type HasRoute, oursByCode, unknownError } from './failures.js';
import { type Names, ResolverSilent } from './names.js';

/** One origin as a connection sees it. */
export interface Destination {
  /** `https://example.com:8443` */
  readonly name: string;
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

/** Common servers and load balancers keep a connection longer; a longer time here means more stale connections. */
const keepAliveMs = 10_000;
const maxHeaderBytes = 16 * 1024;

/**
 * One connection to one origin: an undici client that never has more than one request. It connects when
 * the first request comes and again when the server has closed in between.
 */
export class Connection {
  remoteAddress: string | undefined;
  /** Whether an answer came over the socket that is open now: the next request may find it stale. */
  used = false;
  readonly #client: Client;
  #opening: Opening | undefined;
  #busy = false;
  #isDestroyed = false;

  /** @param onIdleClose called when it was closed while idle, by the server or because it was idle for long */
  constructor(to: Destination, guard: Guard, onIdleClose: (closed: Connection) => void) {
    this.#client = new Client(to.name, {
      connect: (_options, done) => void this.#open(new Opening(to, guard), done),
      pipelining: 1,
      // Each attempt has one timer of its own over all its phases.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: maxHeaderBytes,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      allowH2: false,
    });
    this.#client.on('disconnect', () => {
      this.used = false;
      if (!this.#busy && !this.#isDestroyed) onIdleClose(this);
    });
  }

  /** Sends a request. Without an open socket undici first calls `connect`, in the constructor. */
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#busy = true;
    this.#client.dispatch(options, handler);
  }

  /** Whether it is not open yet because its name has no address yet. */
  isLookingUp(): boolean {
    return this.#opening?.isLookingUp ?? false;
  }

  /** Notes that the answer is read to its end. */
  rest(): void {
    this.#busy = false;
  }

  destroy(): void {
    this.#isDestroyed = true;
    this.#opening?.abandon();
    this.#opening = undefined;
    void this.#client.destroy();
  }

  async #open(opening: Opening, done: buildConnector.Callback): Promise<void> {
    this.#opening = opening;
    const opened = await opening.open().catch((error: Error) => error);
    // It was abandoned.
    if (this.#opening !== opening) return;
    this.#opening = undefined;
    this.used = false;
    const failed = opened instanceof Error;
    this.remoteAddress = failed ? undefined : opened.remoteAddress;
    if (failed) done(opened, null);
    else done(null, opened);
  }
}

/**
 * A connection on its way. Every address is judged before a SYN is sent, and the address
 * that was reached is judged again before a byte of TLS or HTTP is sent. The judged addresses are
 * the ones passed to the socket, so a name that changes its answer gains nothing.
 */
class Opening {
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
      const tried = addresses.map(({ address }) => address);
      throw await connectFailed(error, tried, this.guard.hasRoute);
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
        reject(new AttemptFailed('tls', codeOf(error) ?? unknownError));
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
    const code = codeOf(error) ?? unknownError;
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
