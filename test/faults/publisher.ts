import { randomInt, randomUUID } from 'node:crypto';
import { Pool } from 'undici';

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

export interface Publisher {
  acknowledged: Acknowledged[];
  /** Answers that are neither 202 nor 503, and second ids for one event. */
  wrong: string[];
  /** The longest that an answer, whichever, took (ms). */
  slowestAnswerMs: number;
  refused: number;
  withoutAnswer: number;
  /** Lets every event under way be acknowledged; nothing new is sent. */
  stop(): Promise<void>;
}

export interface PublisherOptions {
  apiUrl: string;
  token: string;
  clientTokens: readonly string[];
  assetsPerClient: number;
  publishers: number;
  /** Which fault comes next. */
  fault: () => number;
}

/** Publishes random events all the time; one that gets 503 or no answer is sent again until it is acknowledged. */
export function startPublisher(options: PublisherOptions): Publisher {
  const pool = new Pool(options.apiUrl, { connections: options.publishers, pipelining: 1 });
  let stopped = false;
  const publisher: Publisher = {
    acknowledged: [],
    wrong: [],
    slowestAnswerMs: 0,
    refused: 0,
    withoutAnswer: 0,
    async stop() {
      stopped = true;
      await Promise.all(running);
      if (!pool.closed) await pool.close();
    },
  };
  const running = Array.from({ length: options.publishers }, async () => {
    while (!stopped) {
      await publishOne(pool, options, publisher);
      await pause(randomInt(0, 120));
    }
  });
  return publisher;
}

async function publishOne(pool: Pool, options: PublisherOptions, publisher: Publisher): Promise<void> {
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
    const answer = await send(pool, options.token, body, publisher);
    if (answer?.status === 202) {
      const { notification, notification_id } = answer.body as Record<string, string>;
      // A repeat finds its segment known where a newer event of the asset was claimed: that one counts.
      if (notification !== 'queued' || notification_id === undefined) return;
      const acknowledgedAt = Date.now();
      const fault = options.fault();
      publisher.acknowledged.push({
        ...{ clientToken, platformId, eventId, notificationId: notification_id },
        ...{ sentAt, acknowledgedAt, fault },
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
async function send(
  pool: Pool,
  token: string,
  body: string,
  publisher: Publisher,
): Promise<{ status: number; body: unknown } | undefined> {
  const from = Date.now();
  try {
    const response = await pool.request({
      method: 'POST',
      path: '/enrichments',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body,
      headersTimeout: 10_000,
      bodyTimeout: 10_000,
    });
    const answer = { status: response.statusCode, body: await response.body.json() };
    publisher.slowestAnswerMs = Math.max(publisher.slowestAnswerMs, Date.now() - from);
    if (answer.status === 503) publisher.refused++;
    return answer;
  } catch {
    publisher.withoutAnswer++;
    return undefined;
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
