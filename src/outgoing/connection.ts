import type { LookupAddress } from 'node:dns';
import { once } from 'node:events';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import { checkServerIdentity, connect as tlsConnect } from 'node:tls';
import { type buildConnector, Client, type Dispatcher } from 'undici';
import { judgeAddress, type TargetPolicy } from './address.js';
import { AttemptFailed, connectFailed, type HasRoute, lookupFailed } from './failures.js';
import type { Names } from './names.js';

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
 * the first request comes, and again after the server has closed the connection.
 *
 * Every address is judged before a SYN is sent, and the address that was reached is judged again before a byte of TLS or
 * HTTP is sent. The judged addresses are the ones passed to the socket, so a name that changes its answer gains nothing.
 */
export class Connection {
  remoteAddress: string | undefined;
  /** True once an answer came over the open socket: the next request may find the socket stale. */
  used = false;
  /** True while the connection waits for the addresses of its name. */
  isLookingUp = false;
  readonly #client: Client;
  #socket: Socket | undefined;

  constructor(
    readonly to: Destination,
    readonly guard: Guard,
    /** `onLookedUp`: the name has addresses, or the lookup failed. */
    readonly events: { onLookedUp(): void; onClosed(): void },
  ) {
    this.#client = new Client(to.name, {
      connect: (_options, done) => void this.#open(done),
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
      events.onClosed();
    });
  }

  /** Sends a request. Without an open socket undici first calls `connect`, in the constructor. */
  dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): void {
    this.#client.dispatch(options, handler);
  }

  destroy(): void {
    void this.#client.destroy();
    this.#socket?.destroy();
  }

  async #open(done: buildConnector.Callback): Promise<void> {
    this.remoteAddress = undefined;
    this.isLookingUp = true;
    try {
      const addresses = await this.#findAddresses().finally(() => {
        this.isLookingUp = false;
        this.events.onLookedUp();
      });
      const tcp = await this.#connectTcp(addresses);
      this.#refuseUnlessAllowed(tcp.remoteAddress ?? '');
      const socket = this.to.secure ? await this.#startTls(tcp) : tcp;
      this.remoteAddress = socket.remoteAddress;
      done(null, socket);
    } catch (error) {
      this.#socket?.destroy();
      done(error as Error, null);
    }
  }

  async #findAddresses(): Promise<readonly LookupAddress[]> {
    const { host } = this.to;
    const family = isIP(host);
    const found =
      family === 0
        ? await this.guard.names.lookup(host).catch((error) => Promise.reject(lookupFailed(error)))
        : [{ address: host, family }];
    for (const { address } of found) this.#refuseUnlessAllowed(address);
    return found;
  }

  async #connectTcp(addresses: readonly LookupAddress[]): Promise<Socket> {
    const { host, port } = this.to;
    const socket = this.#keep(
      netConnect({
        host,
        port,
        noDelay: true,
        keepAlive: true,
        // Happy Eyeballs asks for all addresses. Node's 250 ms for each but the last is less than one lost SYN.
        autoSelectFamily: true,
        autoSelectFamilyAttemptTimeout: 1_500,
        lookup: (_host, _options, found) => found(null, [...addresses]),
      }),
    );
    try {
      await once(socket, 'connect');
      return socket;
    } catch (error) {
      throw await connectFailed(error, addresses, this.guard.hasRoute);
    }
  }

  async #startTls(tcp: Socket): Promise<Socket> {
    const { to } = this;
    const name = to.host.replace(/\.$/, '');
    const socket = this.#keep(
      tlsConnect({
        socket: tcp,
        // An IP literal must not go into SNI (RFC 6066 section 3), but the certificate must still name it.
        servername: isIP(name) === 0 ? name : '',
        checkServerIdentity: (_servername, certificate) => checkServerIdentity(name, certificate),
        ALPNProtocols: ['http/1.1'],
        session: to.session,
        ca: this.guard.ca,
      }),
    );
    socket.on('session', (session) => {
      to.session = session;
    });
    try {
      await once(socket, 'secureConnect');
      return socket;
    } catch {
      // A ticket that the server no longer likes must not fail the next attempt too.
      to.session = undefined;
      throw new AttemptFailed('tls');
    }
  }

  #keep<S extends Socket>(socket: S): S {
    // A second error may follow, which would end the process without a listener.
    socket.on('error', () => undefined);
    this.#socket = socket;
    if (this.#client.destroyed) socket.destroy();
    return socket;
  }

  #refuseUnlessAllowed(address: string): void {
    const verdict = judgeAddress(address, this.to.port, this.guard.policy);
    if (verdict !== 'allowed') throw new AttemptFailed('blocked_address');
  }
}
