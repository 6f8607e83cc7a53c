/**
 * First attempts that begin when their event arrives, beside the start of its workflow instead of after it, where
 * intake and worker share a process. The workflow's first activity finds them begun and takes their outcome.
 *
 * Nothing hangs on it. A claim can be repeated by anyone, an attempt is under its lease; and where the start fails, what
 * is claimed is owed and the sweep finds it. That holds only while Redis has on its disk what it has answered;
 * otherwise nothing begins ahead.
 */
import type { FirstAttempt } from '../../activities/claimAndAttempt.js';
import type { AcceptedEvent, ArrivedEvent } from '../../activities/outcome.js';
import { isFinished } from '../../workflows/leaving.js';
import type { Look } from '../store/look.js';

export interface Ahead {
  /**
   * Its claim and attempt begin now, and the look before them where that has not been; what arrives while earlier claims
   * are under way is claimed together.
   * @returns undefined where nothing begins before the workflow
   */
  begin(event: ArrivedEvent): Begun | undefined;
  /** What was begun of each; who asks again, after a failure, makes a new attempt. Rejects where the claim did. */
  join(events: readonly AcceptedEvent[]): (Promise<FirstAttempt> | undefined)[];
  /** No workflow will ask for it. */
  forget(event: ArrivedEvent): void;
  close(): void;
}

export interface Begun {
  /** Where it had not been looked at; undefined where that has to be done apart. @throws when Redis is away */
  look(): Promise<Look | undefined>;
  /**
   * Whether its claim is decided and on Redis' disk. Known once its client's attempts have been sent, or have ended
   * where many are under way: who waits for it does not outrun delivery. Never rejects.
   */
  claimed: Promise<boolean>;
  /**
   * Whether nothing is left for a workflow to do, and Redis' disk says so: its notification has ended with its first
   * attempt, or is catch-up's. Never rejects.
   */
  finished: Promise<boolean>;
}

export interface AheadOptions {
  beginAttempts: (events: ArrivedEvent[]) => Promise<FirstAttempt[]>;
  /** Whether Redis has on its disk what it has answered. */
  isSafe: () => boolean;
  /** What the process waits for at its end. */
  underWay: Set<Promise<unknown>>;
}

/** Events that are claimed together. */
interface Round {
  ofClient: Map<string, number>;
  events: ArrivedEvent[];
  attempts: Promise<FirstAttempt[]>;
}

const roundAtMost = 500;
/** Of those of one client: others' claims never wait for more than this of one customer's flood. */
const roundPerClient = 32;
const fewAttempts = 150;
/** A workflow whose first task went to another process does not ask; what it left is dropped after one to two of these. */
const dropEveryMs = 10_000;

export function createAhead(options: AheadOptions): Ahead {
  let begun = new Map<string, { round: Round; at: number }>();
  let older: typeof begun = new Map();
  /** Not claimed yet, in their order. */
  const rounds: Round[] = [];
  let attempting = 0;
  let claiming: Promise<void> = Promise.resolve();
  const dropping = setInterval(() => {
    older = begun;
    begun = new Map();
  }, dropEveryMs);
  dropping.unref();

  function newRound(): Round {
    const events: ArrivedEvent[] = [];
    const attempts = claiming.then(() => {
      rounds.shift();
      attempting += events.length;
      return options.beginAttempts(events);
    });
    const round: Round = { events, ofClient: new Map(), attempts };
    rounds.push(round);
    claiming = attempts.then(ignore, ignore);
    const ended = attempts.then((all) => Promise.all(all.map(({ outcome }) => outcome))).then(ignore, ignore);
    options.underWay.add(ended);
    void ended.then(() => {
      attempting -= events.length;
      options.underWay.delete(ended);
    });
    return round;
  }

  async function isClaimed(attempt: FirstAttempt): Promise<boolean> {
    await (attempting > fewAttempts ? attempt.outcome : attempt.sent);
    return attempt.isClaimed;
  }

  const find = (id: string) => begun.get(id) ?? older.get(id);
  function forget({ notificationId }: ArrivedEvent): void {
    begun.delete(notificationId);
    older.delete(notificationId);
  }

  return {
    begin(event) {
      const { notificationId, priority } = event;
      if (priority === 'backfill' || !options.isSafe()) return undefined;
      let found = find(notificationId);
      if (found === undefined) {
        const round = rounds.find((one) => hasPlaceFor(one, event)) ?? newRound();
        round.ofClient.set(event.clientToken, (round.ofClient.get(event.clientToken) ?? 0) + 1);
        found = { round, at: round.events.push(event) - 1 };
        begun.set(notificationId, found);
      }
      const attempt = attemptOf(found);
      return {
        look: async () => (await attempt).look,
        claimed: attempt.then(isClaimed).catch(() => false),
        finished: attempt.then(({ outcome }) => outcome.then(isFinished)).catch(() => false),
      };
    },
    join(events) {
      return events.map((event) => {
        const found = find(event.notificationId);
        forget(event);
        return found && attemptOf(found);
      });
    },
    forget,
    close: () => clearInterval(dropping),
  };
}

async function attemptOf({ round, at }: { round: Round; at: number }): Promise<FirstAttempt> {
  return (await round.attempts)[at] as FirstAttempt;
}

function hasPlaceFor({ events, ofClient }: Round, { clientToken }: ArrivedEvent): boolean {
  return events.length < roundAtMost && (ofClient.get(clientToken) ?? 0) < roundPerClient;
}

/** The error reaches the workflow that asks for the outcome; without one there is nobody to tell. */
function ignore(): void {}
