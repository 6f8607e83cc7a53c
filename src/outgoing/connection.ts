import type { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { TLSSocket } from 'node:tls';
import { AnswerReader } from './answerReader.js';
import { type AttemptRemark, tlsDetail } from './details.js';
import { AttemptFailed, codeOf, oursByCode } from './failures.js';
import { inOrder, judgeAddressOf } from './lessons.js';
import { type Destination, findAddresses, type Guard, isCurrent, openSocket, type Phase } from './opening.js';
import { headOf, type Request } from './request.js';

/** What becomes of a request; after `onEnd` or `onError` nothing follows. */
export interface ExchangeEvents {
  onRead(answer: AnswerReader): void;
  /** @param isReusable the connection is open and between two requests */
  onEnd(isReusable: boolean): void;
  /** @param error an AttemptFailed, or an error of the service's own */
  onError(error: unknown): void;
}

interface Exchange {
  request: Request;
  events: ExchangeEvents;
  reader: AnswerReader;
  isSent: boolean;
  sentAtMs: number;
  stream?: Readable;
}

/**
 * Common servers and load balancers keep a connection longer; a longer time here means more stale connections. It is shorter than the
 * time of an attempt: a receiver with one connection for each worker may serve another process only then.
 */
const keepAliveMs = 6_000;
/** A connection is given up so long before the time that the server names, because a request takes time to arrive. */
const keptMarginMs = 1_000;
/** A receiver that serves every connection answers sooner, mostly. */
const unansweredMs = 1_000;
/** A first message of TLS up to this length fits one packet everywhere (RFC 9000, section 14). */
const packetBytes = 1_200;

/**
 * One connection to one origin, which never has more than one request. It connects when the first request comes, and
 * again after the server has closed the connection.
 *
 * A request that breaks before a byte of its own answer is sent once more, over a new socket, if the socket had
 * an exchange before or was offered a TLS session: the cause may then be older than the request, and another machine behind the same
 * name may have made the session. A handshake that broke after a first message longer than a packet is tried once more with a short one.
 *
 * A socket whose name leads elsewhere by now is not used again: a receiver that moves is followed, however busy its connections are.
 */
export class Connection {
  remoteAddress: string | undefined;
  phase: Phase = 'during_lookup';
  isShort = false;
  handshake: (() => { sent: number; came: number }) | undefined;
  /** The newest request began over a new socket, and no byte of an answer has come. */
  isUnserved = false;
  /** What the socket or its last exchange showed. */
  readonly remarks = new Set<AttemptRemark>();
  readonly #closing = new AbortController();
  readonly signal = this.#closing.signal;
  #socket: Socket | undefined;
  #wasUsed = false;
  /** The TLS session that was offered, and once the socket is open, that was resumed. */
  #session: Buffer | undefined;
  #exchange: Exchange | undefined;
  #resting: NodeJS.Timeout | undefined;
  #unanswered: NodeJS.Timeout | undefined;
  /** Until when the name leads to the socket's address, as its own lookup said: of many addresses each answer may have others. */
  #currentUntilMs = 0;

  constructor(
    readonly to: Destination,
    readonly guard: Guard,
    /**
     * `onLookedUp`: the name has addresses. `onUnanswered`: there is no answer over a new socket yet, every second.
     * `onAnswered`: the first byte of an answer has come, so long after the request.
     */
    readonly events: {
      onLookedUp(): void;
      onUnanswered(waitedMs: number): void;
      onAnswered(afterMs: number): void;
      onClosed(): void;
    },
  ) {}

  get isOpen(): boolean {
    return this.#socket !== undefined;
  }

  /** Sends a request, over a new socket if none is open. @param mayResume a TLS session */
  async send(request: Request, events: ExchangeEvents, mayResume = true): Promise<void> {
    clearTimeout(this.#resting);
    this.remarks.delete('one_connection');
    const exchange: Exchange = { request, events, reader: new AnswerReader(), isSent: false, sentAtMs: 0 };
    this.#exchange = exchange;
    try {
      const head = headOf(request, this.to);
      // First comes what has arrived meanwhile: the end of the connection, or bytes that belong to no request.
      if (this.#socket !== undefined) {
        await nextTurn();
        const isOld = performance.now() > this.#currentUntilMs;
        if (this.#isShunned() || (isOld && !(await isCurrent(this.remoteAddress, this.to, this.guard))))
          this.#drop();
      }
      const socket = this.#socket ?? (await this.#open(mayResume ? this.to.session : undefined));
      if (this.#exchange !== exchange) return;
      if (request.mayBegin?.() === false) {
        // Node 20 crashes if a TLS socket is destroyed within the event that opens it.
        await nextTurn();
        if (this.#exchange !== exchange) return;
        this.#exchange = undefined;
        return events.onError(new AttemptFailed({ error: 'timeout', ours: 'stalled' }));
      }
      this.phase = 'during_answer';
      exchange.isSent = true;
      exchange.sentAtMs = performance.now();
      exchange.reader.isReused = this.#wasUsed;
      exchange.reader.isKept = this.#wasUsed || this.#session !== undefined;
      if (typeof request.body === 'string') socket.write(head + request.body);
      else {
        socket.write(head);
        exchange.stream = request.body();
        // A receiver may wait for all of it.
        clearInterval(this.#unanswered);
        if (this.isUnserved) exchange.stream.once('end', () => this.isUnserved && this.#waitForAnswer());
        exchange.stream.on('error', () => socket.destroy()).pipe(socket, { end: false });
      }
    } catch (error) {
      if (this.#exchange === exchange) this.#fail(exchange, error);
    }
  }

  destroy(): void {
    if (this.phase === 'during_handshake') this.#learnFromSilence();
    this.#closing.abort();
    clearTimeout(this.#resting);
    clearInterval(this.#unanswered);
    this.#exchange?.stream?.destroy();
    this.#exchange = undefined;
  }

  /** Has later connections begin with another address of the name after a failure at this one. */
  judge(isFailure: boolean): void {
    const { found, lesson } = this.to;
    const isOneOfSeveral = (found?.addresses.length ?? 0) > 1;
    if (this.remoteAddress === undefined || !(isFailure ? isOneOfSeveral : lesson.failedAtMs.size > 0))
      return;
    judgeAddressOf(lesson, this.remoteAddress, isFailure);
  }

  #isShunned(): boolean {
    const { found, lesson } = this.to;
    if (found === undefined || !lesson.failedAtMs.has(this.remoteAddress ?? '')) return false;
    return inOrder(lesson, found.addresses)[0]?.address !== this.remoteAddress;
  }

  /** Some servers, or the machines before them, are silent to a session, or to a first message that is longer than a packet. */
  #learnFromSilence(): void {
    const { to } = this;
    if (to.session === this.#session) to.session = undefined;
    if (this.#session !== undefined || this.handshake?.().came !== 0) return;
    // One silence may have another cause where such a message was taken before.
    to.lesson.hello = to.lesson.hello === undefined && this.#isLong() ? 'short' : undefined;
  }

  #isLong(): boolean {
    return (this.handshake?.().sent ?? 0) > packetBytes;
  }

  async #open(session: Buffer | undefined): Promise<Socket> {
    const { lesson } = this.to;
    this.remoteAddress = undefined;
    this.handshake = undefined;
    this.#wasUsed = false;
    this.#session = session;
    this.phase = 'during_lookup';
    this.remarks.clear();
    const { addresses, untilMs } = await findAddresses(this.to, this.guard);
    // Nobody ends what begins after the attempt.
    this.signal.throwIfAborted();
    this.events.onLookedUp();
    this.isUnserved = true;
    this.#waitForAnswer();
    this.isShort = lesson.hello === 'short';
    const socket = await openSocket(this.to, addresses, this.guard, this, session);
    this.#socket = socket;
    if (!(socket instanceof TLSSocket && socket.isSessionReused())) this.#session = undefined;
    if (this.isShort) this.remarks.add('short_hello');
    else if (this.#isLong()) lesson.hello = 'long';
    this.#currentUntilMs = untilMs;
    let firstError: unknown;
    socket
      .on('data', (bytes) => this.#read(socket, bytes))
      .on('error', (error) => {
        firstError ??= error;
        // After a handshake Node leaves a socket open whose bytes are not TLS.
        socket.destroy();
      })
      .on('end', () => socket.destroy())
      .on('close', () => this.#onClose(socket, firstError));
    return socket;
  }

  #waitForAnswer(): void {
    clearInterval(this.#unanswered);
    const sinceMs = performance.now();
    const tell = () => this.events.onUnanswered(performance.now() - sinceMs);
    this.#unanswered = setInterval(tell, unansweredMs).unref();
  }

  #read(socket: Socket, bytes: Buffer): void {
    const exchange = this.#exchange;
    if (socket !== this.#socket) return;
    if (exchange === undefined || !exchange.isSent) {
      // Nobody asked for these bytes: whatever they are, the next answer cannot be told from them.
      this.#drop();
      return;
    }
    if (!exchange.reader.hasBegun) {
      clearInterval(this.#unanswered);
      this.isUnserved = false;
      this.events.onAnswered(performance.now() - exchange.sentAtMs);
    }
    try {
      exchange.reader.read(bytes);
      if (exchange.reader.status > 0) exchange.events.onRead(exchange.reader);
      if (exchange.reader.isOver && this.#exchange === exchange) this.#finish(exchange, socket);
    } catch (error) {
      this.#fail(exchange, error);
    }
  }

  #onClose(socket: Socket, cause: unknown): void {
    const exchange = this.#exchange;
    if (socket !== this.#socket) return;
    this.#drop();
    if (exchange === undefined || !exchange.isSent) return;
    try {
      exchange.reader.end();
      this.#finish(exchange, socket);
    } catch (error) {
      this.#fail(exchange, brokenBy(codeOf(cause)) ?? error);
    }
  }

  #finish({ reader, events, stream }: Exchange, socket: Socket): void {
    this.#exchange = undefined;
    const isSent = stream?.readableEnded ?? true;
    stream?.destroy();
    const restMs = Math.min(keepAliveMs, reader.keptMs - keptMarginMs);
    const isWhole = isSent && socket.writableLength === 0;
    const isReusable = reader.isReusable && isWhole && restMs > 0;
    if (isReusable) {
      this.#wasUsed = true;
      this.#session = undefined;
      this.#resting = setTimeout(() => this.#drop(), restMs).unref();
    }
    events.onEnd(isReusable && this.isOpen);
  }

  #fail({ request, reader, events, isSent, stream }: Exchange, error: unknown): void {
    const { lesson } = this.to;
    const { error: type, detail } = error instanceof AttemptFailed ? error.failure : {};
    const isRefused = this.#session !== undefined && (isSent || type === 'tls');
    if (isRefused && this.to.session === this.#session) this.to.session = undefined;
    const isBroken = type === 'tls' && detail === 'handshake_broken' && !isSent;
    const isTooLong = isBroken && !isRefused && !this.isShort && this.#isLong();
    if (isTooLong) lesson.hello = 'short';
    else if (isBroken && this.isShort) lesson.hello = undefined;
    this.#exchange = undefined;
    clearInterval(this.#unanswered);
    stream?.destroy();
    this.#drop();
    const mayBeOlder = this.#wasUsed && detail !== 'request_invalid';
    if ((mayBeOlder || isRefused || isTooLong) && !reader.hasBegun) void this.send(request, events, false);
    else events.onError(error);
  }

  /** Gives up the socket; the next request opens another. */
  #drop(): void {
    clearTimeout(this.#resting);
    this.#socket?.destroy();
    this.#socket = undefined;
    if (this.#exchange === undefined) this.events.onClosed();
  }
}

/** Translates the error of a socket over which a request was sent; undefined if the socket was only closed. */
function brokenBy(code: string): AttemptFailed | undefined {
  const ours = oursByCode(code);
  if (ours !== undefined) return new AttemptFailed({ error: 'protocol', ours });
  // With TLS 1.3 a server judges the client only after the client's handshake is complete. Other codes have another meaning by then.
  const detail = code.includes('ALERT') ? tlsDetail(code) : 'handshake_broken';
  if (code.startsWith('ERR_SSL_') || code === 'EPROTO') return new AttemptFailed({ error: 'tls', detail });
  return code === 'ECONNRESET' || code === 'EPIPE'
    ? new AttemptFailed({ error: 'protocol', detail: 'reset_without_answer' })
    : undefined;
}
