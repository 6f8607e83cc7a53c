/**
 * Paces the intake by what delivery takes: the next workflow is started once the first attempts of the one before
 * have been sent. Where they are in two processes the worker tells it by Redis' publish and subscribe.
 */
import type { Logger } from '../log.js';
import type { Db } from '../store/db.js';

export interface Pace {
  /** Resolves when the workflow whose first event this is has sent its first attempts, or nobody tells. */
  sent(notificationId: string): Promise<void>;
  /** The worker has sent them. */
  tell(notificationId: string): void;
  close(): void;
}

/** After one wait of this length without a word nothing waits any more, until a worker is heard of again. */
const atMostMs = 1000;

/** For API and worker in one process. */
export function createPace(): Pace {
  const waiting = new Map<string, () => void>();
  let heard = true;
  return {
    sent(notificationId) {
      if (!heard) return Promise.resolve();
      return new Promise((resolve) => {
        const done = () => {
          clearTimeout(timer);
          waiting.delete(notificationId);
          resolve();
        };
        const timer = setTimeout(() => {
          heard = false;
          done();
        }, atMostMs);
        waiting.set(notificationId, done);
      });
    },
    tell(notificationId) {
      heard = true;
      waiting.get(notificationId)?.();
    },
    close() {
      heard = false;
      for (const done of waiting.values()) done();
    },
  };
}

const channel = (db: Db): string => `${db.prefix}first-attempts-sent`;

/** An API's, told by workers elsewhere. */
export function listenForPace(db: Db, log: Logger): Pace {
  const pace = createPace();
  const redis = db.redis.duplicate({
    enableOfflineQueue: true,
    maxRetriesPerRequest: null,
    // It is silent for as long as nothing happens.
    commandTimeout: undefined,
    socketTimeout: undefined,
  });
  redis.on('error', () => undefined);
  redis.on('message', (_, notificationId: string) => pace.tell(notificationId));
  redis.subscribe(channel(db)).catch((err: unknown) => log.warn({ err }, 'the intake is not paced'));
  return {
    ...pace,
    close() {
      redis.disconnect();
      pace.close();
    },
  };
}

/** A worker's, for APIs elsewhere: a word that is lost costs them one wait. */
export function tellPace(db: Db): Pick<Pace, 'tell'> {
  return {
    tell: (notificationId) => {
      db.redis.publish(channel(db), notificationId).catch(() => undefined);
    },
  };
}
