import { setTimeout as sleep } from 'node:timers/promises';
import type { Take, TakeMode } from '../redis/owed/take.js';
import { ClientAttempts } from './clientAttempts.js';
import { leasedFor } from './conclude.js';
import type { DeliveryDeps } from './deps.js';
import type { Outcome } from './outcome.js';
import { type Delivery, Work } from './work.js';
import { Works } from './works.js';

/** While Temporal is unavailable no catch-up can be woken: the sweep finds owed assets. */
const wakeWithinMs = 2000;
/** An outcome is kept for its workflow for 30 to 60 s. */
const keptMs = 30_000;
/** A caller of a stopping process may ask another process after this time. */
const leftForMs = 1000;

/**
 * Takes, POSTs and settles: the one engine of a process that delivers. It knows the deliveries that it has begun, so
 * that a workflow or a drain joins them.
 */
export class Engine {
  readonly #clients = new Map<string, ClientAttempts>();
  readonly #works = new Works();
  /** Outcomes of first attempts that nobody has joined yet, by notification: of this period and of the previous one. */
  #begun = new Map<string, Promise<Outcome>>();
  #begunBefore = new Map<string, Promise<Outcome>>();
  readonly #ageing = setInterval(() => {
    this.#begunBefore = this.#begun;
    this.#begun = new Map();
  }, keptMs).unref();
  #closed: Promise<void> | undefined;

  constructor(readonly deps: DeliveryDeps) {}

  /**
   * Begins the first attempt of a notification that this process has claimed, unless it has begun.
   * @param take the answer of the claim's script, if it asked for a place
   */
  begin(delivery: Delivery, take?: Take): Promise<Outcome> {
    const { outcome } = this.#run(delivery, 'first', take);
    this.#begun.set(delivery.notificationId, outcome);
    return outcome;
  }

  /** Waits for an attempt's outcome, and begins the attempt if it has not begun. */
  join(delivery: Delivery, mode: TakeMode): Promise<Outcome> {
    const { notificationId } = delivery;
    const begun = this.#begun.get(notificationId) ?? this.#begunBefore.get(notificationId);
    if (mode !== 'redeliver') this.forget([notificationId]);
    return mode === 'first' && begun !== undefined ? begun : this.#run(delivery, mode).outcome;
  }

  /** Drops the outcomes of first attempts that nobody will join. */
  forget(notificationIds: Iterable<string>): void {
    for (const id of notificationIds) {
      this.#begun.delete(id);
      this.#begunBefore.delete(id);
    }
  }

  /** Whether new work of this client waits here. */
  isQueueing(clientToken: string): boolean {
    return this.#clients.get(clientToken)?.isQueueing ?? false;
  }

  /** Returns how many notifications have queued for a place and have no outcome yet. */
  queued(): number {
    return this.#works.queued;
  }

  /** Whether it takes nothing more: a caller leaves what is still owed to another process. */
  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Stops taking and waits for the attempts under way; catch-up gets the works that still wait for a place. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    clearInterval(this.#ageing);
    const woken = [...this.#clients.values()].map((attempts) => attempts.close());
    await this.#works.allEnded();
    await Promise.race([Promise.all(woken), sleep(wakeWithinMs)]);
  }

  #run(delivery: Delivery, mode: TakeMode, take?: Take): Work {
    const known = this.#works.find(delivery, mode);
    if (known !== undefined) {
      // It already waits its turn: the place that its claim has taken goes to another notification.
      if (take?.kind === 'taken')
        this.#attemptsOf(delivery).giveBack({ platformId: delivery.platformId, token: take.token });
      return known;
    }
    if (this.isClosed) {
      const work = new Work(delivery, mode);
      work.end(leasedFor(leftForMs));
      return work;
    }
    const work = this.#works.add(delivery, mode);
    this.#attemptsOf(delivery).add(work, take);
    return work;
  }

  #attemptsOf({ clientToken }: Delivery): ClientAttempts {
    let attempts = this.#clients.get(clientToken);
    if (attempts === undefined) {
      const created = new ClientAttempts(clientToken, this.deps, this.#works, () => {
        // Another may have been created since.
        if (this.#clients.get(clientToken) === created) this.#clients.delete(clientToken);
      });
      attempts = created;
      this.#clients.set(clientToken, attempts);
    }
    return attempts;
  }
}
