import { randomInt, randomUUID } from 'node:crypto';
import { Pool } from 'undici';
import { pause } from './pause.js';

/** An event that the API answered with `queued`. */
export interface Acknowledged {
  clientToken: string;
  platformId: string;
  eventId: string;
  notificationId: string;
  /** ms, of the first try */
  sentAt: number;
  acknowledgedAt: number;
  /** Of the run's faults, the number of the one this event met: under way or just before it. */
  fault: number;
}

/** The API's answers to events during a fault. */
export interface Answers {
  taken: number;
  refused: number;
  withoutAnswer: number;
  /** The longest that an answer, whichever, took (ms). */
  slowestMs: number;
  /** Of the last 503: its time and its body. */
  lastRefused?: string;
}

export interface Publisher {
  acknowledged: Acknowledged[];
  /** By the number of the fault. */
  answers: Answers[];
  /** Answers that are neither 202 nor 503. */
  wrong: string[];
  /** Lets every event under way be acknowledged; nothing new is sent. */
  stop(): Promise<void>;
}

export interface PublisherOptions {
  /** The API to send the next event to. */
  apiUrl: () => string;
  token: string;
  clientTokens: readonly string[];
  assetsPerClient: number;
  publishers: number;
  /** Each publisher's pause between two events is random, up to this. */
  pauseMs?: number;
  /** Names the next fault. */
  fault: () => number;
}

/** Publishes random events all the time; one that gets 503 or no answer is sent again until it is acknowledged. */
export function startPublisher(options: PublisherOptions): Publisher {
  const { pauseMs = 120 } = options;
  const pools = new Map<string, Pool>();
  let stopped = false;

  function poolOf(url: string): Pool {
    const pool = pools.get(url) ?? new Pool(url, { connections: options.publishers, pipelining: 1 });
    pools.set(url, pool);
    return pool;
  }

  async function publishOne(): Promise<void> {
    const eventId = randomUUID();
    const clientToken = options.clientTokens[randomInt(options.clientTokens.length)] as string;
    const platformId = `video-${randomInt(options.assetsPerClient)}`;
    const body = JSON.stringify({
      event_id: eventId,
      client_token: clientToken,
      platform_id: platformId,
      segments: [`segment-${eventId}`],
    });
    const sentAt = Date.now();
    for (;;) {
      const answer = await send(poolOf(options.apiUrl()), body);
      if (answer?.status === 202) {
        const { notification, notification_id } = answer.body as Record<string, string>;
        // A repeat finds its segment known where a newer event of the asset was claimed: that one counts.
        if (notification !== 'queued' || notification_id === undefined) return;
        publisher.acknowledged.push({
          ...{ clientToken, platformId, eventId, notificationId: notification_id },
          ...{ sentAt, acknowledgedAt: Date.now(), fault: options.fault() },
        });
        return;
      }
      if (answer !== undefined && answer.status !== 503) {
        publisher.wrong.push(`${answer.status} ${JSON.stringify(answer.body)}`);
        return;
      }
      await pause(100);
    }
  }

  /** Undefined where no answer came. */
  async function send(pool: Pool, body: string): Promise<{ status: number; body: unknown } | undefined> {
    const from = Date.now();
    try {
      const response = await pool.request({
        method: 'POST',
        path: '/enrichments',
        headers: { authorization: `Bearer ${options.token}`, 'content-type': 'application/json' },
        body,
        headersTimeout: 10_000,
        bodyTimeout: 10_000,
      });
      const answer = { status: response.statusCode, body: await response.body.json() };
      const count = answersNow();
      count.slowestMs = Math.max(count.slowestMs, Date.now() - from);
      if (answer.status === 503) {
        count.refused++;
        count.lastRefused = `${new Date().toISOString()} ${JSON.stringify(answer.body)}`;
      }
      if (answer.status === 202) count.taken++;
      return answer;
    } catch {
      answersNow().withoutAnswer++;
      return undefined;
    }
  }

  function answersNow(): Answers {
    const fault = options.fault();
    publisher.answers[fault] ??= { taken: 0, refused: 0, withoutAnswer: 0, slowestMs: 0 };
    return publisher.answers[fault];
  }

  const publisher: Publisher = {
    acknowledged: [],
    answers: [],
    wrong: [],
    async stop() {
      stopped = true;
      await Promise.all(running);
      await Promise.all([...pools.values()].map((pool) => pool.close()));
      pools.clear();
    },
  };
  const running = Array.from({ length: options.publishers }, async () => {
    while (!stopped) {
      await publishOne();
      await pause(Math.random() * pauseMs);
    }
  });
  return publisher;
}
