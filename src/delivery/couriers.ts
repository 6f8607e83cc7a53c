import type { Takes } from '../redis/owed/turn.js';
import { Courier, type Flow, mostPerTurn } from './courier.js';
import type { Outcome } from './outcome.js';
import type { DeliveryDeps } from './send.js';

/** An outcome that nobody waits for yet is kept for its workflow for 30 to 60 s. */
const keptMs = 30_000;

/** Keeps a courier for each client with something to send, and the outcomes of their attempts until a workflow asks. */
export class Couriers {
  readonly #couriers = new Map<string, Courier>();
  readonly #waiters = new Map<string, ((outcome: Outcome) => void)[]>();
  /** Notifications in flight here. */
  readonly #inFlight = new Set<string>();
  /** Outcomes of this process's claims that no workflow has asked for: of this period and of the period before. */
  #known = new Map<string, Outcome>();
  #knownBefore = new Map<string, Outcome>();
  readonly #ageing = setInterval(() => {
    this.#knownBefore = this.#known;
    this.#known = new Map();
  }, keptMs).unref();
  #closed: Promise<void> | undefined;

  constructor(readonly deps: DeliveryDeps) {}

  /** Returns how many assets a claim may take for a client; 0 once this process ends. */
  most(clientToken: string): number {
    if (this.#closed !== undefined) return 0;
    return this.#couriers.get(clientToken)?.most ?? mostPerTurn;
  }

  /** Sends what a claim of this process has taken. */
  begin(clientToken: string, takes: Takes): void {
    if (takes.taken.length === 0 && takes.nextInMs === undefined && !takes.wakeCatchUp) return;
    for (const { notificationId } of takes.taken) this.#inFlight.add(notificationId);
    this.#of(clientToken).begin(takes);
  }

  /** Finds what a claim may have taken whose answer was lost. */
  find(clientToken: string, nonce: string): void {
    if (this.#closed === undefined) this.#of(clientToken).find(nonce);
  }

  /** Has a client's courier run a turn. Resolves when the turn has ended. */
  async poke(clientToken: string): Promise<void> {
    if (this.#closed === undefined) await this.#of(clientToken).poke();
  }

  /** Pokes a client's courier. Resolves when nothing of the client is in flight here or due within a second. */
  async untilIdle(clientToken: string): Promise<Flow> {
    const courier = this.#of(clientToken);
    const idle = courier.idle();
    void courier.poke();
    await idle;
    return courier.flow;
  }

  /** Returns what the client's courier has done so far. */
  flowOf(clientToken: string): Flow | undefined {
    return this.#couriers.get(clientToken)?.flow;
  }

  /** Returns whether an attempt of this notification is under way here, or its outcome is kept here. */
  knows(notificationId: string): boolean {
    return (
      this.#inFlight.has(notificationId) ||
      this.#known.has(notificationId) ||
      this.#knownBefore.has(notificationId)
    );
  }

  /** Resolves with the kept outcome of the notification, or with the outcome of its next attempt here. */
  outcomeOf(notificationId: string): Promise<Outcome> {
    const known = this.#known.get(notificationId) ?? this.#knownBefore.get(notificationId);
    if (known !== undefined) {
      this.#known.delete(notificationId);
      this.#knownBefore.delete(notificationId);
      return Promise.resolve(known);
    }
    return new Promise((resolve) => {
      const waiters = this.#waiters.get(notificationId) ?? [];
      waiters.push(resolve);
      this.#waiters.set(notificationId, waiters);
    });
  }

  /** Drops the questions for these notifications. */
  forget(notificationIds: readonly string[]): void {
    for (const id of notificationIds) this.#waiters.delete(id);
  }

  /** True once this process takes nothing more. */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Stops taking and waits for the attempts under way. What is due waits in Redis for other processes. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    clearInterval(this.#ageing);
    await Promise.all([...this.#couriers.values()].map((courier) => courier.close()));
  }

  #of(clientToken: string): Courier {
    let courier = this.#couriers.get(clientToken);
    if (courier === undefined) {
      const created = new Courier(clientToken, this.deps, {
        outcome: (notificationId, outcome) => this.#tell(notificationId, outcome),
        idle: () => {
          if (this.#couriers.get(clientToken) === created) this.#couriers.delete(clientToken);
        },
      });
      courier = created;
      this.#couriers.set(clientToken, created);
    }
    return courier;
  }

  #tell(notificationId: string, outcome: Outcome): void {
    const waiters = this.#waiters.get(notificationId);
    this.#waiters.delete(notificationId);
    // Only what this process has claimed is asked for later.
    if (waiters === undefined && this.#inFlight.has(notificationId)) this.#known.set(notificationId, outcome);
    this.#inFlight.delete(notificationId);
    for (const resolve of waiters ?? []) resolve(outcome);
  }
}
