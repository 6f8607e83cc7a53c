/** The way out through a proxy: a tunnel by CONNECT (RFC 9110, section 9.3.6), in which everything else is as without it. */
import { once } from 'node:events';
import { isIP, connect as netConnect, type Socket } from 'node:net';
import type { Config } from '../config.js';
import { withTimeout } from '../promises.js';
import { AnswerReader } from './answerReader.js';
import { AttemptFailed } from './failures.js';

/** Makes the way out through a proxy, if the settings have one. */
export const readProxy = ({
  OUTGOING_PROXY: url,
  OUTGOING_PROXY_RESOLVES: resolves,
}: Pick<Config, 'OUTGOING_PROXY' | 'OUTGOING_PROXY_RESOLVES'>): OutgoingProxy | undefined =>
  url === undefined ? undefined : new OutgoingProxy(url, resolves);

/** How long a proxy may take to refuse what it can judge alone. */
const judgedWithinMs = 1_000;
/** A target that every proxy refuses immediately: a port of the proxy's own machine at which nothing listens. */
const nowhere = { host: '127.0.0.1', port: 1 };

export class OutgoingProxy {
  readonly #host: string;
  readonly #port: number;
  readonly #authorization: string;
  #answeredAtMs = Number.NEGATIVE_INFINITY;

  /**
   * @param url `http://user:password@host:port`
   * @param resolves the proxy is given the name, and looks it up itself; otherwise it is given an address that was judged here
   */
  constructor(
    url: string,
    readonly resolves: boolean,
  ) {
    const { hostname, port, username, password } = new URL(url);
    this.#host = hostname.replace(/^\[|\]$/g, '');
    this.#port = Number(port || 80);
    const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    this.#authorization =
      username === '' ? '' : `proxy-authorization: Basic ${Buffer.from(credentials).toString('base64')}\r\n`;
  }

  /**
   * Opens a tunnel to the first of these hosts that the proxy reaches.
   * @throws AttemptFailed: the receiver's failure if the proxy says that it found no way there, else `ours`
   */
  async connect(
    hosts: readonly string[],
    port: number,
    onSocket: (socket: Socket) => void,
  ): Promise<{ socket: Socket; host: string }> {
    for (const host of hosts) {
      const { status, socket } = await this.#ask(host, port, onSocket);
      if (status < 300) return { socket, host };
      socket.destroy();
      // RFC 9209, section 2.3, and the common proxies: the next hop is not found, not reached or too slow.
      if (![502, 503, 504].includes(status)) throw proxyFailed(`it answered ${status}`);
    }
    throw new AttemptFailed('connect', { detail: 'proxy_found_no_way' });
  }

  /** Returns whether the proxy is the cause if an attempt waits for its tunnel since `sinceMs` (`performance.now()`). */
  async isSilent(sinceMs: number): Promise<boolean> {
    return this.#answeredAtMs < sinceMs && (await this.fault()) !== undefined;
  }

  /** Tries the proxy. @returns what it does wrong; undefined if it answers and takes our credentials */
  async fault(): Promise<string | undefined> {
    let newest: Socket | undefined;
    const asked = this.#ask(nowhere.host, nowhere.port, (socket) => {
      newest = socket;
    });
    try {
      const { status } = await withTimeout(asked, judgedWithinMs, () => ({ status: 0 }));
      if (status === 0) return 'it does not answer';
      return status === 407 ? 'it refuses the user name and password (407)' : undefined;
    } catch (error) {
      if (error instanceof AttemptFailed) return error.why;
      throw error;
    } finally {
      asked.catch(() => undefined);
      newest?.destroy();
    }
  }

  async #ask(host: string, port: number, onSocket: (socket: Socket) => void) {
    const socket = netConnect({ host: this.#host, port: this.#port, noDelay: true, keepAlive: true });
    socket.on('error', () => undefined);
    onSocket(socket);
    await once(socket, 'connect').catch(() => Promise.reject(proxyFailed('it cannot be reached')));
    const target = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
    socket.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n${this.#authorization}\r\n`);
    const { status, hasMore } = await readHead(socket);
    this.#answeredAtMs = performance.now();
    // No receiver of TLS or HTTP sends the first byte.
    if (status < 300 && hasMore) throw proxyFailed('it answers with a page, not a tunnel');
    return { status, socket };
  }
}

/** What the proxy does wrong counts against no receiver. */
const proxyFailed = (why: string) => new AttemptFailed('connect', { ours: 'proxy', why });

/** Resolves at the end of the answer's head. `hasMore`: bytes have come with it. */
function readHead(socket: Socket): Promise<{ status: number; hasMore: boolean }> {
  return new Promise((resolve, reject) => {
    const head = { status: 0, hasMore: false };
    const onData = (bytes: Buffer): void => {
      try {
        reader.read(bytes);
      } catch {
        end(() => reject(proxyFailed('it does not answer in HTTP')));
      }
    };
    const onClose = () => end(() => reject(proxyFailed('it closes the connection')));
    const end = (settle: () => void): void => {
      socket.off('data', onData).off('close', onClose).off('end', onClose);
      settle();
    };
    const reader = new AnswerReader({
      onStatus: (code) => {
        head.status = code;
      },
      onHeaders: () => end(() => resolve(head)),
      onBody: () => Object.assign(head, { hasMore: true }),
    });
    socket.on('data', onData).on('close', onClose).on('end', onClose);
  });
}
