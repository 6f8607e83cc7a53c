import type { Accepted, EnrichmentEvent, EventNotAccepted } from './types.js';

export interface Entry {
  /** Counts the events in the order of `send`. */
  n: number;
  event: EnrichmentEvent;
  json: string;
  resolve: (accepted: Accepted) => void;
  reject: (error: EventNotAccepted) => void;
  /** Events at most in the next call with this one. */
  most: number;
}

/** A client without an answer about some of its events. It has one call under way at most. */
interface HeldBack {
  /** In a row. */
  failures: number;
  /** In the order of `send`. */
  entries: Entry[];
  /** The call that tries it again. */
  call?: Entry[] | undefined;
  isDue: boolean;
}

/** The service takes 1 MiB; this leaves room for what stands around the events. */
const maxCallBytes = 1_000_000;

/**
 * Events that wait for a call, those of each client in the order of `send`. A client whose events the service cannot answer for
 * is held back, so that it delays no other client.
 */
export class Queue {
  #ready: Entry[] = [];
  readonly #heldBack = new Map<string, HeldBack>();

  constructor(
    private readonly batchSize: number,
    private readonly onDue: () => void,
  ) {}

  push(entry: Entry): void {
    this.#ready.push(entry);
  }

  /** Takes the events of the next call; none if all wait for later. Half of a call is for clients that are not held back. */
  nextCall(): Entry[] {
    const call: Entry[] = [];
    let [bytes, most] = [0, this.batchSize];
    const takes = (entry: Entry): boolean => {
      bytes += Buffer.byteLength(entry.json) + 1;
      most = Math.min(most, entry.most);
      return call.length < most && (call.length === 0 || bytes <= maxCallBytes) && call.push(entry) > 0;
    };
    const due = [...this.#heldBack.values()].filter(({ isDue }) => isDue);
    const waiting = due.reduce((sum, { entries }) => sum + entries.length, 0);
    const share = Math.max(this.batchSize - waiting, Math.floor(this.batchSize / 2));
    let passed = 0;
    for (const entry of this.#ready) {
      const held = this.#heldBack.get(entry.event.client_token);
      if (held) held.entries.push(entry);
      else if (call.length >= share || !takes(entry)) break;
      passed++;
    }
    this.#ready.splice(0, passed);
    for (const held of due) {
      const tooMany = held.entries.findIndex((entry) => !takes(entry));
      if (tooMany === 0) break;
      Object.assign(held, { isDue: false, call });
      held.entries.splice(0, tooMany < 0 ? held.entries.length : tooMany);
    }
    return call;
  }

  /**
   * Holds each client back that has unknown events, and lets the others of the call go on.
   * @param wait resolves after so many failures in a row
   * @returns the fewest failures in a row of a client with unknown events
   */
  settle(call: Entry[], unknown: Entry[], wait: (failures: number) => Promise<void>): number {
    let fewest = Number.POSITIVE_INFINITY;
    const released: Entry[] = [];
    for (const token of new Set(call.map(({ event }) => event.client_token))) {
      const isOwn = ({ event }: Entry) => event.client_token === token;
      const again = unknown.filter(isOwn);
      let held = this.#heldBack.get(token);
      // A call that began before the client was held back says nothing about it now.
      const isNews = held === undefined || held.call === call;
      if (again.length > 0) {
        held ??= { failures: 0, entries: [], isDue: false };
        held.entries = [...again, ...held.entries].sort((a, b) => a.n - b.n);
        if (isNews) this.#holdBack(token, held, again.length < call.filter(isOwn).length, wait);
        fewest = Math.min(fewest, held.failures);
      } else if (held && isNews) {
        this.#heldBack.delete(token);
        for (const entry of held.entries) released.push(entry);
      }
    }
    if (released.length > 0) this.#ready = released.concat(this.#ready);
    return fewest;
  }

  #holdBack(
    token: string,
    held: HeldBack,
    hasProgress: boolean,
    wait: (failures: number) => Promise<void>,
  ): void {
    held.failures = hasProgress ? 1 : held.failures + 1;
    held.call = undefined;
    // At the end of the map: each has its turn.
    this.#heldBack.delete(token);
    this.#heldBack.set(token, held);
    void wait(held.failures).then(() => {
      held.isDue = true;
      this.onDue();
    });
  }
}
