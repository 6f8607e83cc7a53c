/**
 * The load during a run of faults: events, tokens and registrations, asked for all the time. Everything that was promised is
 * kept, with the number of the fault that it met.
 */
import { randomInt, randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { notificationId } from '../../src/ids.js';
import type { Db } from '../../src/redis/connection/db.js';
import { createClient } from '../../src/redis/records/clients.js';
import { tokenFields } from '../service.js';
import type { Cast } from './scene.js';

interface Options {
  /** The API to call next. */
  apiUrl: () => string;
  /** Names the next fault. */
  fault: () => number;
  cast: Cast;
}

/** An event that the API answered with `queued`. */
export interface Acknowledged {
  clientToken: string;
  platformId: string;
  eventId: string;
  notificationId: string;
  /** ms, of the first try */
  sentAt: number;
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
}

/** Publishes random events; one that gets 503 or no answer is sent again until it is acknowledged. */
export function startPublisher(
  options: Omit<Options, 'cast'> & {
    cast: Pick<Cast, 'clientTokens' | 'platformToken'>;
    assetsPerClient: number;
    publishers: number;
    /** Each publisher's pause between two events is random, up to this. */
    pauseMs?: number | undefined;
  },
) {
  const { cast, fault, pauseMs = 120 } = options;

  async function publishOne(): Promise<void> {
    const eventId = randomUUID();
    const clientToken = cast.clientTokens[randomInt(cast.clientTokens.length)] as string;
    const platformId = `video-${randomInt(options.assetsPerClient)}`;
    const segments = [`segment-${eventId}`];
    const body = JSON.stringify({
      event_id: eventId,
      client_token: clientToken,
      platform_id: platformId,
      segments,
    });
    const sentAt = Date.now();
    for (;;) {
      const answer = await send(body);
      if (answer?.status === 202) {
        const { notification, notification_id } = answer.body;
        // A repeat finds its segment known where a newer event of the asset was claimed: that one counts.
        if (notification !== 'queued' || notification_id === undefined) return;
        const id = notificationId({ clientToken, platformId, eventId, segments });
        if (notification_id !== id)
          publisher.wrong.push(`${eventId} has the ids ${id} and ${notification_id}`);
        const event = { clientToken, platformId, eventId, notificationId: id };
        publisher.acknowledged.push({ ...event, sentAt, fault: fault() });
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
  async function send(body: string) {
    const from = Date.now();
    const headers = { authorization: `Bearer ${cast.platformToken}`, 'content-type': 'application/json' };
    const answer = await ask(`${options.apiUrl()}/enrichments`, { method: 'POST', headers, body });
    const count = answersNow();
    if (answer === undefined) count.withoutAnswer++;
    else count.slowestMs = Math.max(count.slowestMs, Date.now() - from);
    if (answer?.status === 503) count.refused++;
    if (answer?.status === 202) count.taken++;
    return answer;
  }

  function answersNow(): Answers {
    publisher.answers[fault()] ??= { taken: 0, refused: 0, withoutAnswer: 0, slowestMs: 0 };
    return publisher.answers[fault()] as Answers;
  }

  const loops = Array.from({ length: options.publishers }, () =>
    startLoop(publishOne, () => Math.random() * pauseMs),
  );
  const publisher = {
    acknowledged: [] as Acknowledged[],
    /** By the number of the fault. */
    answers: [] as Answers[],
    /** Answers that are neither 202 nor 503, or name another notification than the event's. */
    wrong: [] as string[],
    /** Lets every event under way be acknowledged; nothing new is sent. */
    async stop() {
      await Promise.all(loops.map((stop) => stop()));
    },
  };
  return publisher;
}

/** Asks for tokens. */
export function startMinter({ apiUrl, fault, cast, everyMs }: Options & { everyMs: number }) {
  const body = new URLSearchParams(tokenFields(cast.publisher));

  async function askOnce(): Promise<void> {
    const answer = await ask(`${apiUrl()}/oauth/access_token`, { method: 'POST', body });
    // No answer is no promise.
    if (answer === undefined) minter.withoutAnswer++;
    else if (answer.status === 200 && answer.body.access_token !== undefined)
      minter.tokens.push({ value: answer.body.access_token, fault: fault() });
    else if (answer.status !== 503) minter.wrong.push(`${answer.status} for a token`);
  }

  const minter = {
    tokens: [] as { value: string; fault: number }[],
    /** Answers that are neither 200 nor 503. */
    wrong: [] as string[],
    withoutAnswer: 0,
    stop: startLoop(askOnce, () => everyMs),
  };
  return minter;
}

export interface Registered {
  clientToken: string;
  /** Those that were answered 200. */
  urls: string[];
  fault: number;
}

/** Registers new clients, each with two URLs at the same time, exactly one of which may be answered 200. */
export function startRegistrar(options: Options & { db: Db; everyMs: number }) {
  const { apiUrl, cast, db, fault } = options;

  async function registerClient(): Promise<void> {
    const client = { accountId: cast.publisher.account_id, name: 'New' };
    const made = await createClient(db, client).catch(() => undefined);
    if (made === undefined) return;
    const { clientToken } = made;
    const urls = ['one', 'other'].map((name) => `http://127.0.0.1:9/${clientToken}/${name}`);
    const answers = await Promise.all(urls.map((url) => untilAnswered(clientToken, url)));
    registrar.registrations.push({ clientToken, urls: urls.filter((_, i) => answers[i]), fault: fault() });
  }

  /** A call that got 503 or no answer is repeated. True for 200, false for "already registered". */
  async function untilAnswered(clientToken: string, url: string): Promise<boolean> {
    const query = new URLSearchParams({ client_token: clientToken, url });
    const headers = { authorization: `Bearer ${cast.publisherToken}` };
    for (;;) {
      const answer = await ask(`${apiUrl()}/register_push_notifications?${query}`, {
        method: 'POST',
        headers,
      });
      if (answer?.status === 200) return true;
      if (answer?.status === 400 && answer.body.code === 'already_registered') return false;
      if (answer === undefined) registrar.withoutAnswer++;
      else if (answer.status !== 503) {
        registrar.wrong.push(`${answer.status} ${JSON.stringify(answer.body)}`);
        return false;
      }
      await pause(100);
    }
  }

  const registrar = {
    registrations: [] as Registered[],
    /** Answers that are not 200, 503 or "already registered". */
    wrong: [] as string[],
    withoutAnswer: 0,
    stop: startLoop(registerClient, () => options.everyMs),
  };
  return registrar;
}

/** Calls the API. Undefined where no whole answer came in time. */
async function ask(url: string, init: RequestInit) {
  try {
    const answer = await fetch(url, { ...init, signal: AbortSignal.timeout(10_000) });
    return { status: answer.status, body: (await answer.json()) as Record<string, string> };
  } catch {
    return undefined;
  }
}

/** Does something again and again, with pauses. @returns what ends that, once the last one is done */
export function startLoop(once: () => Promise<void>, pauseMs: () => number): () => Promise<void> {
  let isStopped = false;
  const running = (async () => {
    // The caller first keeps what this returns.
    await pause(0);
    while (!isStopped) {
      await once();
      await pause(pauseMs());
    }
  })();
  return async () => {
    isStopped = true;
    await running;
  };
}
