/**
 * Paces the intake by what delivery takes: the next workflow is started once the first attempts of the one before
 * have been sent. Only where API and worker share a process; elsewhere nobody knows, and nothing waits.
 */
export interface Pace {
  /** Resolves when the workflow whose first event this is has sent its first attempts, or does so elsewhere or late. */
  sent(notificationId: string): Promise<void>;
  /** The worker has sent them. */
  tell(notificationId: string): void;
}

/** Longer than the first workflow task takes to come back; a workflow that another worker has got costs this wait. */
const atMostMs = 100;

export function createPace(): Pace {
  const waiting = new Map<string, () => void>();
  return {
    sent(notificationId) {
      return new Promise((resolve) => {
        const done = () => {
          clearTimeout(timer);
          waiting.delete(notificationId);
          resolve();
        };
        const timer = setTimeout(done, atMostMs);
        waiting.set(notificationId, done);
      });
    },
    tell: (notificationId) => waiting.get(notificationId)?.(),
  };
}
