import type { Outcome } from '../redis/owed/standing.js';
import type { Takes } from '../redis/owed/turn.js';
import { Courier, mostPerTurn } from './courier.js';
import type { DeliveryDeps } from './send.js';

/** The outcome of an attempt after a claim is kept so long for a workflow that starts later. */
const keptMs = 30_000;

/** An attempt under way here, or one whose outcome is kept. */
interface Attempt {
  outcome: Promise<Outcome>;
  end(outcome: Outcome): void;
  /** Taken by a claim, whose workflow will ask. */
  isClaimed: boolean;
  isAsked: boolean;
  isEnded: boolean;
}

/** Keeps a courier for each client with something to send, and the outcomes of their attempts until a workflow asks. */
export class Couriers {
  readonly #couriers = new Map<string, Courier>();
  /** By notification. */
  readonly #attempts = new Map<string, Attempt>();
  #closed: Promise<unknown> | undefined;

  constructor(readonly deps: DeliveryDeps) {}

  /** Returns how many assets a claim may take for a client; 0 once this process ends. */
  most(clientToken: string): number {
    if (this.isClosed) return 0;
    return this.#couriers.get(clientToken)?.most ?? mostPerTurn;
  }

  /** Sends what a claim of this process has taken. */
  begin(clientToken: string, takes: Takes): void {
    if (takes.taken.length === 0 && takes.nextInMs === undefined && !takes.wakeCatchUp) return;
    for (const { notificationId } of takes.taken) this.#begun(notificationId, true);
    this.#courierFor(clientToken).begin(takes);
  }

  /** Makes due again what a claim may have taken whose answer was lost. */
  find(clientToken: string, nonce: string): void {
    if (!this.isClosed) this.#courierFor(clientToken).find(nonce);
  }

  /** Has a client's courier run a turn. Resolves when the turn has ended. */
  async poke(clientToken: string): Promise<void> {
    if (!this.isClosed) await this.#courierFor(clientToken).poke();
  }

  /** Pokes a client's courier. Resolves when nothing of the client is in flight here or due within a second. */
  async untilIdle(clientToken: string): Promise<void> {
    const courier = this.#courierFor(clientToken);
    void courier.poke();
    await courier.idle();
  }

  /** Returns whether an attempt of this notification is under way here, or its outcome is kept here. */
  knows(notificationId: string): boolean {
    return this.#attempts.has(notificationId);
  }

  /** Returns the outcome of the attempt that this process knows; a kept outcome is returned once. */
  outcomeOf(notificationId: string): Promise<Outcome> | undefined {
    const attempt = this.#attempts.get(notificationId);
    if (attempt === undefined) return undefined;
    attempt.isAsked = true;
    if (attempt.isEnded) this.#attempts.delete(notificationId);
    return attempt.outcome;
  }

  /** True once this process takes nothing more. */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Stops taking and waits for the attempts under way. What is due waits in Redis for other processes. */
  async close(): Promise<void> {
    this.#closed ??= Promise.all([...this.#couriers.values()].map((courier) => courier.close()));
    await this.#closed;
  }

  #courierFor(clientToken: string): Courier {
    const known = this.#couriers.get(clientToken);
    if (known !== undefined) return known;
    const courier = new Courier(clientToken, this.deps, {
      begun: (notificationId) => this.#begun(notificationId, false),
      ended: (notificationId, outcome) => this.#ended(notificationId, outcome),
      idle: () => {
        if (this.#couriers.get(clientToken) === courier) this.#couriers.delete(clientToken);
      },
    });
    this.#couriers.set(clientToken, courier);
    return courier;
  }

  #begun(notificationId: string, isClaimed: boolean): void {
    if (this.#attempts.get(notificationId)?.isEnded === false) return;
    let end: Attempt['end'] = () => {};
    const outcome = new Promise<Outcome>((resolve) => {
      end = resolve;
    });
    this.#attempts.set(notificationId, { outcome, end, isClaimed, isAsked: false, isEnded: false });
  }

  #ended(notificationId: string, outcome: Outcome): void {
    const attempt = this.#attempts.get(notificationId);
    if (attempt === undefined) return;
    attempt.end(outcome);
    attempt.isEnded = true;
    const forget = () => {
      if (this.#attempts.get(notificationId) === attempt) this.#attempts.delete(notificationId);
    };
    if (attempt.isAsked || !attempt.isClaimed) forget();
    else setTimeout(forget, keptMs).unref();
  }
}
