import { setTimeout as pause } from 'node:timers/promises';
import { type Receiver as Open, startReceiver } from '../receiver.js';

/** Answers take this long at most, so that a fault finds some under way. */
const slowestAnswerMs = 30;

export type Receiver = ReturnType<typeof createReceiver>;

/** The clients' endpoint: remembers every POST that reached it whole, and can go away with all its connections. */
export function createReceiver(port: number) {
  /** Times of arrival (ms) by `webhook-id`. */
  const arrivals = new Map<string, number[]>();
  let there: Open | undefined;
  return {
    url: `http://127.0.0.1:${port}`,
    arrivals,
    async open(): Promise<void> {
      const opened = await startReceiver(port);
      opened.answer = async ({ headers, at }) => {
        const id = String(headers['webhook-id']);
        arrivals.set(id, [...(arrivals.get(id) ?? []), at]);
        opened.received.length = 0;
        await pause(Math.random() * slowestAnswerMs);
        return 204;
      };
      there = opened;
    },
    /** Answers under way are cut off. */
    async breakOff(): Promise<void> {
      const closing = there;
      there = undefined;
      await closing?.close();
    },
  };
}
