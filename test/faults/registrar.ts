/** Registers new clients all the time, each with two URLs at the same time, exactly one of which may be answered 200. */
import { request } from 'undici';
import type { Db } from '../../src/redis/connection/db.js';
import { createClient } from '../../src/redis/records/clients.js';
import { getRegistration } from '../../src/redis/records/registrations.js';
import { pause } from './pause.js';

export interface Registered {
  clientToken: string;
  /** Those that were answered 200. */
  urls: string[];
  fault: number;
}

export interface Registrar {
  registrations: Registered[];
  /** Answers that are not 200, 503 or "already registered". */
  wrong: string[];
  withoutAnswer: number;
  stop(): Promise<void>;
}

export function startRegistrar(options: {
  /** The API to call next. */
  apiUrl: () => string;
  db: Db;
  accountId: string;
  token: string;
  everyMs: number;
  /** Names the next fault. */
  fault: () => number;
}): Registrar {
  let stopped = false;

  async function registerClient(): Promise<void> {
    const made = await createClient(options.db, { accountId: options.accountId, name: 'New' }).catch(
      () => undefined,
    );
    if (made === undefined) return;
    const { clientToken } = made;
    const urls = ['one', 'other'].map((name) => `http://127.0.0.1:9/${clientToken}/${name}`);
    const answers = await Promise.all(urls.map((url) => untilAnswered(clientToken, url)));
    const taken = urls.filter((_, i) => answers[i]);
    registrar.registrations.push({ clientToken, urls: taken, fault: options.fault() });
  }

  /** A call that got 503 or no answer is repeated. True for 200, false for "already registered". */
  async function untilAnswered(clientToken: string, url: string): Promise<boolean> {
    for (;;) {
      try {
        const query = new URLSearchParams({ client_token: clientToken, url });
        const response = await request(`${options.apiUrl()}/register_push_notifications?${query}`, {
          method: 'POST',
          headers: { authorization: `Bearer ${options.token}` },
          headersTimeout: 10_000,
        });
        const answer = (await response.body.json()) as { code?: string };
        if (response.statusCode === 200) return true;
        if (response.statusCode === 400 && answer.code === 'already_registered') return false;
        if (response.statusCode !== 503) {
          registrar.wrong.push(`${response.statusCode} ${JSON.stringify(answer)}`);
          return false;
        }
      } catch {
        registrar.withoutAnswer++;
      }
      await pause(100);
    }
  }

  async function registerAll(): Promise<void> {
    while (!stopped) {
      await registerClient();
      await pause(options.everyMs);
    }
  }

  const registrar: Registrar = {
    registrations: [],
    wrong: [],
    withoutAnswer: 0,
    async stop() {
      stopped = true;
      await running;
    },
  };
  const running = registerAll();
  return registrar;
}

/** Those that do not have exactly one URL that was answered 200, or have lost it. */
export async function lostRegistrations(
  db: Db,
  registrations: readonly Registered[],
): Promise<(Registered & { stored: string | undefined })[]> {
  const lost = [];
  for (const registered of registrations) {
    const stored = (await getRegistration(db, registered.clientToken))?.url;
    if (registered.urls.length !== 1 || stored !== registered.urls[0]) lost.push({ ...registered, stored });
  }
  return lost;
}
