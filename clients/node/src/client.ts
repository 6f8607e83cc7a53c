import { randomUUID } from 'node:crypto';
import { AccessToken } from './accessToken.js';
import { type Answer, Caller, checkNumber, isPassing, problemOf, type ServiceOptions } from './call.js';
import { type Accepted, type EnrichmentEvent, EventNotAccepted, type NotAccepted } from './types.js';

export * from './updates.js';
export { type Accepted, type EnrichmentEvent, EventNotAccepted };

export interface ClientOptions extends ServiceOptions {
  /** Calls under way at most; 4. */
  concurrency?: number;
  /** Events in one call at most; 100, the service takes 500. */
  batchSize?: number;
  /** So many events may wait for their answer before `ready` waits; 10,000. */
  maxQueued?: number;
}

interface Entry {
  event: EnrichmentEvent;
  json: string;
  resolve: (accepted: Accepted) => void;
  reject: (error: EventNotAccepted) => void;
}

/** The service takes 1 MiB; this leaves room for what stands around the events. */
const maxBatchBytes = 1_000_000;

/**
 * Publishes enrichment events. Events that are sent while all calls are under way share the next call; each is sent until
 * the service takes or refuses it, always with the same id, so that none is taken twice.
 */
export class EnrichmentsClient {
  readonly #token: AccessToken;
  readonly #caller: Caller;
  readonly #limits: { concurrency: number; batchSize: number; maxQueued: number };
  readonly #queue: Entry[] = [];
  #callsUnderWay = 0;
  #unanswered = 0;
  #isStarting = false;
  #isClosed = false;
  #waitingForRoom: (() => void)[] = [];
  #waitingForEnd: (() => void)[] = [];

  /** @throws RangeError that names an option which no call could be made with */
  constructor(options: ClientOptions) {
    const { concurrency = 4, batchSize = 100, maxQueued = 10_000 } = options;
    checkNumber('concurrency', concurrency);
    checkNumber('batchSize', batchSize, 500);
    checkNumber('maxQueued', maxQueued);
    this.#limits = { concurrency, batchSize, maxQueued };
    this.#caller = new Caller(options);
    this.#token = new AccessToken(options, this.#caller, 'enrichments');
  }

  /** Events that wait for their answer. */
  get queued(): number {
    return this.#unanswered;
  }

  /**
   * Resolves once the service has taken the event for good. Takes an event also where `ready` would wait.
   * @throws EventNotAccepted where the service refuses it or the client is closed
   */
  send(event: EnrichmentEvent): Promise<Accepted> {
    const identified = { ...event, event_id: event.event_id ?? `evt-${randomUUID()}` };
    if (this.#isClosed) return Promise.reject(closed(identified));
    return new Promise((resolve, reject) => {
      this.#queue.push({ event: identified, json: JSON.stringify(identified), resolve, reject });
      this.#unanswered++;
      this.#startSoon();
    });
  }

  /** Waits while `maxQueued` events wait for their answer: for who does not wait for each `send`. */
  async ready(): Promise<void> {
    if (this.#isClosed || this.#unanswered < this.#limits.maxQueued) return;
    await new Promise<void>((resolve) => this.#waitingForRoom.push(resolve));
  }

  /**
   * Takes no more, and resolves once every event has its answer.
   * @param withinMs after this time what has none is given up: its `send` throws EventNotAccepted with the code `closed`;
   * without it, and from 2^31 on, nothing is
   */
  async close(withinMs = Number.POSITIVE_INFINITY): Promise<void> {
    this.#isClosed = true;
    // Node's timers take no more: a longer one would end at once.
    const giveUp = withinMs < 2 ** 31 ? setTimeout(() => this.#caller.end(), withinMs) : undefined;
    this.#tell();
    if (this.#unanswered > 0) await new Promise<void>((resolve) => this.#waitingForEnd.push(resolve));
    clearTimeout(giveUp);
  }

  /** After what is sent in this turn of the event loop, so that it shares a call. */
  #startSoon(): void {
    if (this.#isStarting) return;
    this.#isStarting = true;
    setImmediate(() => {
      this.#isStarting = false;
      this.#start();
    });
  }

  #start(): void {
    while (this.#callsUnderWay < this.#limits.concurrency && this.#queue.length > 0) {
      this.#callsUnderWay++;
      void this.#deliver(this.#nextBatch()).finally(() => {
        this.#callsUnderWay--;
        this.#start();
      });
    }
  }

  #nextBatch(): Entry[] {
    let bytes = 0;
    const tooMany = this.#queue.findIndex((entry, i) => {
      bytes += Buffer.byteLength(entry.json) + 1;
      return i === this.#limits.batchSize || (i > 0 && bytes > maxBatchBytes);
    });
    return this.#queue.splice(0, tooMany < 0 ? this.#queue.length : tooMany);
  }

  /** Sends what is left of a batch until nothing is. */
  async #deliver(batch: Entry[]): Promise<void> {
    let left = batch;
    let most = batch.length;
    for (let failures = 1; ; failures++) {
      const sent = left.slice(0, most);
      const answer = await this.#publish(sent);
      // What takes its line too long arrives in parts.
      if (answer.status === 408 || answer.isLate) most = Math.ceil(sent.length / 2);
      const unknown = settle(sent, answer);
      const open = [...unknown, ...left.slice(sent.length)];
      const again = this.#caller.isEnded ? giveUp(open) : open;
      this.#unanswered -= left.length - again.length;
      left = again;
      this.#tell();
      if (left.length === 0) return;
      if (unknown.length === 0) failures = 0;
      else await this.#caller.backOff(answer, failures, `${unknown.length} events are sent again`);
    }
  }

  async #publish(batch: readonly Entry[]): Promise<Answer> {
    const body = `{"events":[${batch.map(({ json }) => json).join(',')}]}`;
    return await this.#token.call((authorization) => {
      const headers = { authorization, 'content-type': 'application/json' };
      return this.#caller.call('POST', '/enrichments', 'results', { headers, body });
    });
  }

  /** Lets those go on for whom there is room, or nothing left to wait for. */
  #tell(): void {
    const room = this.#isClosed ? this.#waitingForRoom.length : this.#limits.maxQueued - this.#unanswered;
    for (const goOn of this.#waitingForRoom.splice(0, Math.max(0, room))) goOn();
    if (this.#unanswered === 0) for (const goOn of this.#waitingForEnd.splice(0)) goOn();
  }
}

/** Tells who waits for what is decided. @returns what is to be sent again */
function settle(batch: Entry[], answer: Answer): Entry[] {
  if (isPassing(answer)) return batch;
  if (answer.status !== 202) {
    const { code, msg } = problemOf(answer);
    for (const { event, reject } of batch) reject(new EventNotAccepted(code, msg, event));
    return [];
  }
  const results = answer.body.results as (Accepted | NotAccepted | undefined)[];
  return batch.filter(({ event, resolve, reject }, i) => {
    const result = results[i];
    // Without a word about the event it is not known whether it was taken.
    if (typeof result !== 'object' || result === null) return true;
    if ('notification' in result) resolve(result);
    else if (result.code === 'temporarily_unavailable') return true;
    else reject(new EventNotAccepted(result.code, result.msg, event));
    return false;
  });
}

function giveUp(batch: Entry[]): Entry[] {
  for (const { event, reject } of batch) reject(closed(event));
  return [];
}

const closed = (event: EnrichmentEvent): EventNotAccepted =>
  new EventNotAccepted('closed', 'The client was closed before the service answered', event);
