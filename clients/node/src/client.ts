import { randomUUID } from 'node:crypto';
import { AccessToken } from './accessToken.js';
import { type Answer, Caller, checkNumber, isPassing, problemOf, type ServiceOptions } from './call.js';
import { type Entry, Queue } from './queue.js';
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

/**
 * Publishes enrichment events. Events that are sent while all calls are under way share the next call; each is sent until
 * the service takes or refuses it, always with the same id, so that none is taken twice. While the events of one client have
 * no answer, those of the others go on.
 */
export class EnrichmentsClient {
  readonly #token: AccessToken;
  readonly #caller: Caller;
  readonly #limits: { concurrency: number; batchSize: number; maxQueued: number };
  readonly #queue: Queue;
  #sent = 0;
  #callsUnderWay = 0;
  /** Calls in a row that had no answer. */
  #failures = 0;
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
    this.#queue = new Queue(batchSize, () => this.#start());
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
      const json = JSON.stringify(identified);
      this.#queue.push({
        n: this.#sent++,
        event: identified,
        json,
        resolve,
        reject,
        most: this.#limits.batchSize,
      });
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
    while (this.#callsUnderWay < this.#limits.concurrency) {
      const batch = this.#queue.nextCall();
      if (batch.length === 0) return;
      this.#callsUnderWay++;
      void this.#deliver(batch).finally(() => {
        this.#callsUnderWay--;
        this.#start();
      });
    }
  }

  /** Sends a batch once. Keeps its place for a while if the whole call had no answer, as in an outage. */
  async #deliver(batch: Entry[]): Promise<void> {
    const answer = await this.#publish(batch);
    const isDivided = batch.length > 1 && isDivisible(answer);
    const unknown = isDivided ? batch : settle(batch, answer);
    const again = this.#caller.isEnded ? giveUp(unknown) : unknown;
    const isAnswered = answer.status === 202 || unknown.length === 0;
    this.#failures = isAnswered ? 0 : this.#failures + 1;
    if (isDivided) for (const entry of again) entry.most = Math.ceil(batch.length / 2);
    const fewest = this.#queue.settle(batch, again, (failures) => this.#caller.pause(answer, failures));
    this.#unanswered -= batch.length - again.length;
    this.#tell();
    if (again.length === 0) return;
    this.#caller.tell(answer, Math.max(this.#failures, fewest), `${again.length} events are sent again`);
    if (!isAnswered) await this.#caller.pause(answer, this.#failures);
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

/**
 * Whether the events may be taken in parts: what takes its line too long arrives then, what is too large fits, and one event
 * that spoils the whole call is refused alone. An `error` is about the token.
 */
function isDivisible({ status, isLate, body }: Answer): boolean {
  return isLate || (body.error === undefined && [400, 408, 413].includes(status));
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
    else if (typeof result.code !== 'string' || result.code === 'temporarily_unavailable') return true;
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
