import { type buildConnector, Client, type Dispatcher } from 'undici';
import { type Destination, type Guard, Opening } from './opening.js';

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
  /** Called when an idle connection was closed, by the server or because it was idle for long. */
  onIdleClose: () => void = () => undefined;

  readonly #client: Client;
  #opening: Opening | undefined;
  #busy = false;

  constructor(origin: string, to: Destination, guard: Guard) {
    this.#client = new Client(origin, {
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
      if (!this.#busy) this.onIdleClose();
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
    this.onIdleClose = () => undefined;
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
