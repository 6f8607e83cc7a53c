import { setImmediate as nextRound } from 'node:timers/promises';
import type { Config } from '../config.js';
import { maxSockets } from '../openFiles.js';
import { readTargetPolicy, type TargetPolicy } from './address.js';
import { isOfMachine, isSilence, type PostResult, resultOf } from './answer.js';
import { type AnswerReader, excerptBytes } from './answerReader.js';
import type { Connection, ExchangeEvents } from './connection.js';
import { type ConnectionBounds, Connections } from './connections.js';
import { AttemptFailed, type Failure, hasRoute } from './failures.js';
import { systemNames } from './names.js';
import { type Guard, trustOf } from './opening.js';
import { readProxy } from './proxy.js';
import { Reach } from './reach.js';
import type { Request } from './request.js';
import { hostOf, parseUrl, portOf } from './target.js';
import { readTrustedRoots } from './trust.js';

export type { PostResult } from './answer.js';

/** The right to use one connection to one origin, and one of the process's sockets. */
export type Permit = Pick<Attempt, 'post' | 'release' | 'over'>;

type Content = Omit<Request, 'path'>;

export type Sender = ReturnType<typeof createSender>;

export interface SenderSettings extends Partial<Omit<Guard, 'trust'> & ConnectionBounds> {
  policy: TargetPolicy;
  /** For one attempt: name, connection, TLS, request and answer. */
  timeoutMs: number;
  /** Certificate authorities in PEM instead of those of Node. */
  ca?: string | string[];
}

/** Makes the sender that the settings ask for: of a process, or of an operator's command. @throws ConfigError */
export const senderOf = (config: Config, policy = readTargetPolicy(config), reach = new Reach()) =>
  createSender({
    policy,
    reach,
    timeoutMs: config.ATTEMPT_TIMEOUT_SECONDS * 1000,
    proxy: readProxy(config),
    ca: readTrustedRoots(config),
    connectionsPerOrigin: config.connectionsPerOrigin,
    maxSockets,
  });

/**
 * Sends POSTs, each one attempt: it follows no redirect, reads at most 16 KiB of an answer, for a second after its headers (of a 2xx:
 * its status line), and ends within `timeoutMs`. If this process was paused, it has the missed time once more, for a second at most.
 *
 * | the receiver | ends as |
 * |---|---|
 * | answers 2xx, whatever follows the status line, and after any number of 1xx | `ok` |
 * | answers 3xx | `redirect` |
 * | answers any other status, whatever follows the status line | `http_status`, with an excerpt and `Retry-After` |
 * | has no name, or its name server is silent or broken | `dns` (`timeout` if the attempt's time ends first) |
 * | has any address that is not public, or is the service itself; `http` if it is not allowed | `blocked_address` |
 * | refuses, resets or cannot be reached while connecting | `connect` |
 * | shows a certificate that is wrong, expired, self-signed or for another name; breaks off the handshake | `tls` |
 * | accepts and keeps silent, stalls in TLS, sends a byte a second or `103` for ever | `timeout` |
 * | closes or resets before the status line is complete; sends anything other than HTTP/1, 64 KiB of 1xx, or `101` | `protocol` |
 *
 * Each has a `detail` (details.ts). A connection that may be stale is replaced once, within the attempt (connection.ts). The time of an attempt covers name, connection, TLS and receiver, not the wait for a permit or for the right to look up a name.
 * What fails here, rather than at the receiver, has `ours` (failures.ts).
 */
export function createSender(settings: SenderSettings) {
  const { policy, timeoutMs, connectionsPerOrigin = Infinity, maxSockets = Infinity, ca } = settings;
  // Reading the authorities takes milliseconds: once, not for each connection.
  const trust = ca === undefined ? undefined : trustOf(ca);
  const connections = new Connections(
    {
      ...settings,
      trust,
      names: settings.names ?? systemNames,
      hasRoute: settings.hasRoute ?? hasRoute,
      reach: settings.reach ?? new Reach(),
    },
    { connectionsPerOrigin, maxSockets, maxLookups: settings.maxLookups ?? 256 },
  );
  const shared: Shared = { connections, timeoutMs, posting: 0 };
  let closing: Promise<void> | undefined;

  /**
   * Waits for a permit: for one of the connections to the origin of `url`, shared in turn among clients, one of the process's sockets,
   * and for a new connection the right to look up its name. Resolves immediately if there is room, and for a URL that cannot be posted
   * to: its `post` says why. @returns undefined if there is no room within this time
   */
  async function permit(url: string, client: string, withinMs: number): Promise<Permit | undefined> {
    if (closing !== undefined) return refuse({ error: 'connect', ours: 'stalled' });
    const target = parseUrl(url);
    if (target === undefined) return refuse({ error: 'protocol', detail: 'request_invalid' });
    const secure = target.protocol === 'https:';
    if (!secure && !(target.protocol === 'http:' && policy.allowHttp))
      return refuse({ error: 'blocked_address', detail: 'http_not_allowed' });
    const to = { name: target.origin, host: hostOf(target), port: portOf(target), secure };
    const connection = await connections.acquire(to, client, withinMs);
    return connection && new Attempt(connection, client, target.pathname + target.search, shared);
  }

  return {
    permit,
    /** Waits for a permit, however long that takes, then posts. */
    post: async ({ url, client, ...content }: Content & { url: string; client: string }) => {
      const place = (await permit(url, client, Infinity)) as Permit;
      return place.post(content);
    },
    /** Returns how many posts have no result yet. */
    inFlight: () => shared.posting,
    /** Returns how many wait for a permit. */
    waiting: () => connections.waiting,
    /** Refuses new posts, waits for those that have a permit or wait for one, closes all connections. */
    close: (): Promise<void> => (closing ??= connections.close()),
  };
}

const refuse = (failure: Failure): Permit => ({
  post: async () => ({ ok: false, ...failure, milliseconds: 0 }),
  release: () => undefined,
  over: async () => undefined,
});

interface Shared {
  connections: Connections;
  timeoutMs: number;
  /** Posts without a result. */
  posting: number;
}

/** The most bytes of an answer that are read to use its connection again. */
const maxBodyBytes = 16 * 1024;
/** How long the rest of an answer may take once the headers, of a 2xx the status line, are there. Its socket is taken meanwhile, although a 2xx is already settled. */
const bodyMs = 1_000;
const afterPauseMs = { least: 250, most: 1_000 };

/**
 * One POST on one connection. Its result is known with the status line of a 2xx, or the excerpt of another answer. The attempt is
 * over once the rest of the body has been read in the background, for a second at most.
 */
class Attempt implements ExchangeEvents {
  /** `answered`: what follows may only take so long; `known`: so is the result. */
  #state: 'ready' | 'posted' | 'answered' | 'known' | 'over' = 'ready';
  #startedAtMs = 0;
  #timeoutMs = 0;
  #timer: NodeJS.Timeout | undefined;
  #wasPaused = false;
  readonly #elapsedMs = () => performance.now() - this.#startedAtMs;
  #answer: AnswerReader | undefined;
  #resolve: (result: PostResult) => void = () => undefined;
  #reject: (reason: unknown) => void = () => undefined;
  #onOver: () => void = () => undefined;

  constructor(
    readonly connection: Connection,
    readonly client: string,
    readonly path: string,
    readonly shared: Shared,
  ) {}

  /** Makes one attempt; its time begins now, and is at most `withinMs`. Call it once. */
  async post(content: Content, withinMs = Infinity): Promise<PostResult> {
    if (this.#state !== 'ready') throw new Error('a permit is for one POST');
    this.#state = 'posted';
    this.#startedAtMs = performance.now();
    this.#timeoutMs = Math.min(this.shared.timeoutMs, withinMs);
    this.shared.posting++;
    try {
      return await new Promise((resolve, reject) => {
        this.#resolve = resolve;
        this.#reject = reject;
        this.#startTimer(this.#timeoutMs);
        void this.connection.send({ path: this.path, ...content }, this);
      });
    } finally {
      this.shared.posting--;
    }
  }

  /** Resolves once nothing more of the answer is read, at most a second after a result, and the connection may be used again. */
  over(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#state === 'over') resolve();
      else this.#onOver = resolve;
    });
  }

  /** Gives the permit back unused; has no effect once it is used or given back. */
  release(): void {
    if (this.#state !== 'ready') return;
    // A connection that was closed in the meantime would rest for ever.
    this.#end(this.connection.isOpen);
  }

  onRead(answer: AnswerReader): void {
    const isOk = answer.status < 300;
    if (this.#answer === undefined) this.shared.connections.answered(this.connection, this.client);
    this.#answer = answer;
    if (this.#state === 'posted' && (isOk || answer.hasHeaders)) {
      this.#state = 'answered';
      this.#startTimer(Math.min(bodyMs, this.#timeoutMs - this.#elapsedMs()));
    }
    if (this.#state === 'answered' && (isOk || answer.bodyBytes >= excerptBytes)) {
      this.#state = 'known';
      this.#settle();
    }
    if (answer.bodyBytes > maxBodyBytes) this.#end(false);
  }

  onEnd(isReusable: boolean): void {
    if (this.#state !== 'known') this.#settle();
    this.#end(isReusable);
  }

  onError(error: unknown): void {
    this.#watch(error instanceof AttemptFailed ? this.#fail(error.failure) : Promise.reject(error));
  }

  async #onTimeout(): Promise<void> {
    const timer = this.#timer;
    // After a pause of the process timers run before sockets are read, and an answer may lie there.
    await nextRound();
    if (this.#state === 'over' || this.#timer !== timer) return;
    const missedMs = this.#elapsedMs() - this.#timeoutMs;
    if (missedMs > afterPauseMs.least && !this.#wasPaused && this.#answer === undefined) {
      this.#wasPaused = true;
      return this.#startTimer(Math.min(missedMs, afterPauseMs.most));
    }
    const { phase, isUnserved, to } = this.connection;
    // With TLS, who has ended the handshake is served.
    const isBehind = phase === (to.secure ? 'during_handshake' : 'during_answer');
    const isLeft = isUnserved && isBehind && (to.answeredAtMs ?? 0) > this.#startedAtMs;
    const late: Failure = { error: 'timeout', detail: isLeft ? 'connection_unserved' : phase };
    const { names, proxy } = this.shared.connections.guard;
    // Either one customer's name server or server is silent, or the resolver or the proxy; finding out takes up to a second.
    const isDns = phase === 'during_lookup';
    const isTunnel = phase === 'during_connect' && proxy !== undefined;
    if (!isDns && !isTunnel) return this.#fail(late);
    const since = this.#startedAtMs;
    const isSilent = isTunnel ? proxy.isSilent(since) : names.isResolverSilent(since);
    this.#end(false);
    if (!(await isSilent)) return this.#fail(late);
    return this.#fail(isDns ? { error: 'dns', ours: 'resolver' } : { error: 'connect', ours: 'proxy' });
  }

  #startTimer(ms: number): void {
    clearTimeout(this.#timer);
    // An answer may come after the time, before its timer: Node warns of a negative time.
    this.#timer = setTimeout(() => this.#watch(this.#onTimeout()), Math.max(0, ms));
  }

  /** An error of the service's own while an attempt is ended is that of its POST, and ends no process. */
  #watch(ending: Promise<void>): void {
    ending.catch((error) => {
      this.#reject(error);
      this.#end(false);
    });
  }

  /** Ends the attempt before the end of its answer, or without an answer: finding out whether all are silent takes up to two seconds and a half. */
  async #fail(failure: Failure): Promise<void> {
    const { to, remoteAddress, guard } = this.connection;
    const address = remoteAddress ?? to.found?.addresses[0]?.address;
    let ours = failure.ours;
    const isUnclear = guard.proxy === undefined && this.#answer === undefined && isSilence(failure);
    if (isUnclear && address !== undefined) {
      // What it teaches of the address is kept with the connection.
      this.connection.judge(isOfMachine(failure));
      this.#end(false);
      if (await guard.reach.isLost(address, this.client, this.#startedAtMs)) ours = 'outside';
    }
    this.#settle({ ...failure, ours });
    this.#end(false);
  }

  /** Gives the result, if there is none yet: that of the answer, if it has begun. */
  #settle(failure?: Failure): void {
    const { remarks: seen = [], ...result } =
      this.#answer === undefined ? { ok: false, ...failure } : resultOf(this.#answer);
    const { remoteAddress, remarks } = this.connection;
    this.connection.judge(!result.ok && isOfMachine(result));
    const all = [...remarks, ...seen];
    this.#resolve({
      ...result,
      milliseconds: Math.round(this.#elapsedMs()),
      remoteAddress,
      ...(all.length > 0 && { remarks: all }),
    });
  }

  /** Gives the connection back; nothing more of an answer is read. */
  #end(isReusable: boolean): void {
    this.#state = 'over';
    clearTimeout(this.#timer);
    this.shared.connections.release(this.connection, isReusable);
    this.#onOver();
  }
}
