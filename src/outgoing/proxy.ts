/** The way out through a proxy: a tunnel by CONNECT (RFC 9110, section 9.3.6), in which everything else is as without it. */
import { once } from 'node:events';
import { type IncomingHttpHeaders, request } from 'node:http';
import { isIP, type Socket } from 'node:net';
import { addAbortSignal } from 'node:stream';
import type { Config } from '../config.js';
import { withTimeout } from '../promises.js';
import { AttemptFailed, codeOf, type Ours, oursByCode } from './failures.js';

export const readProxy = ({ OUTGOING_PROXY: url, OUTGOING_PROXY_RESOLVES: resolves }: Config) =>
  url === undefined ? undefined : new OutgoingProxy(url, resolves);

/** How long a proxy may take to refuse what it can judge alone. */
const judgedWithinMs = 1_000;
/** How long an address may take before the next is tried, also without a proxy. */
export const otherAfterMs = 1_500;
/** RFC 9209, section 2.3, and the common proxies (500: Tinyproxy): the next hop is not found, not reached or too slow. */
const foundNoWay = [500, 502, 503, 504];
/** A target that every proxy refuses immediately: a port of the proxy's own machine at which nothing listens. */
const nowhere = { host: '127.0.0.1', port: 1 };

export class OutgoingProxy {
  readonly #host: string;
  readonly #port: number;
  readonly #credentials: Readonly<Record<string, string>>;
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
    const credentials = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`);
    this.#credentials =
      username + password === '' ? {} : { 'Proxy-Authorization': `Basic ${credentials.toString('base64')}` };
  }

  /**
   * Opens a tunnel to the first of these hosts that the proxy reaches.
   * @throws AttemptFailed: the receiver's failure if the proxy says that it found no way there, else `ours`
   */
  async connect(hosts: readonly string[], port: number, signal: AbortSignal) {
    for (const [i, host] of hosts.entries()) {
      const asking = this.#ask(host, port, signal);
      // A proxy tries a dead address for a minute. Only two are given up before, because a slow proxy needs the attempt's time.
      const waits = i >= Math.min(2, hosts.length - 1);
      const { status } = await (waits ? asking : withTimeout(asking, otherAfterMs, () => ({ status: 504 })));
      if (isTunnel(status)) return { socket: (await asking).socket, host };
      asking.then(({ socket }) => socket.destroy()).catch(() => undefined);
      if (!foundNoWay.includes(status)) throw proxyFailed(`it answered ${status}`);
    }
    throw new AttemptFailed({ error: 'connect', detail: 'proxy_found_no_way' });
  }

  /** Returns whether the proxy is the cause if an attempt waits for its tunnel since `sinceMs` (`performance.now()`). */
  async isSilent(sinceMs: number): Promise<boolean> {
    return this.#answeredAtMs < sinceMs && (await this.fault()) !== undefined;
  }

  /** Tries the proxy. @returns what it does wrong; undefined if it answers and takes our credentials */
  async fault(): Promise<string | undefined> {
    const signal = AbortSignal.timeout(judgedWithinMs);
    try {
      const { isAsked, socket } = await this.#ask(nowhere.host, nowhere.port, signal);
      socket.destroy();
      return isAsked ? 'it refuses the user name and password (407)' : undefined;
    } catch (error) {
      if (signal.aborted) return 'it does not answer';
      if (error instanceof AttemptFailed) return error.failure.why;
      throw error;
    }
  }

  /** Tries the way to a host that no customer may reach. @returns undefined if the proxy says no, or nothing */
  async leadsTo(host: string, port: number): Promise<'there' | 'found no way' | undefined> {
    const signal = AbortSignal.timeout(judgedWithinMs);
    try {
      const { status, socket } = await this.#ask(host, port, signal);
      socket.destroy();
      if (isTunnel(status)) return 'there';
      return foundNoWay.includes(status) ? 'found no way' : undefined;
    } catch (error) {
      if (signal.aborted || error instanceof AttemptFailed) return undefined;
      throw error;
    }
  }

  /** @returns `isAsked`: the proxy asks who we are. Smokescreen answers 407 to whatever it does not allow, and asks nothing. */
  async #ask(
    host: string,
    port: number,
    signal: AbortSignal,
  ): Promise<{ status: number; isAsked: boolean; socket: Socket }> {
    const path = `${isIP(host) === 6 ? `[${host}]` : host}:${port}`;
    const asking = request({
      host: this.#host,
      port: this.#port,
      method: 'CONNECT',
      path,
      // As common clients write them: some proxies know no other case.
      headers: { Host: path, ...this.#credentials, Connection: 'keep-alive' },
      agent: false,
      insecureHTTPParser: true,
      signal,
    });
    asking.on('error', () => undefined).end();
    const [{ statusCode = 0, headers }, socket, more] = await once(asking, 'connect').catch((error) => {
      const code = codeOf(error);
      if (code.startsWith('HPE_')) throw proxyFailed('it does not answer in HTTP');
      const why = code === 'ECONNRESET' ? 'it closes the connection' : 'it cannot be reached';
      throw proxyFailed(why, oursByCode(code));
    });
    this.#answeredAtMs = performance.now();
    addAbortSignal(signal, socket.on('error', () => undefined).setKeepAlive(true));
    // No receiver of TLS or HTTP sends the first byte.
    if (isTunnel(statusCode) && (more.length > 0 || (await hasPage(headers, socket))))
      throw proxyFailed('it answers with a page, not a tunnel');
    const isAsked = statusCode === 407 && headers['proxy-authenticate'] !== undefined;
    return { status: statusCode, isAsked, socket };
  }
}

/** Returns whether the head is that of a page, and its bytes or its end come within half a second. */
async function hasPage(headers: IncomingHttpHeaders, socket: Socket): Promise<boolean> {
  const isOfPage = ['content-length', 'content-type', 'transfer-encoding'].some((name) => name in headers);
  if (!isOfPage || headers['content-length'] === '0') return false;
  const come = once(socket, 'readable').catch(() => []);
  return (await withTimeout(come, 500, () => undefined)) !== undefined;
}

/** After a 1xx Node reads no further: what follows is the proxy's, and would pass for the receiver's answer. */
const isTunnel = (status: number) => status >= 200 && status < 300;

/** What the proxy does wrong counts against no receiver. @param ours what this host lacks to reach it */
const proxyFailed = (why: string, ours: Ours = 'proxy') => new AttemptFailed({ error: 'connect', ours, why });
