/** Asks for tokens all the time and keeps every one that it was given. */
import { Pool, request } from 'undici';
import type { Credentials } from './cast.js';
import { pause } from './pause.js';

export interface Minter {
  tokens: { value: string; fault: number }[];
  /** Answers that are neither 200 nor 503. */
  wrong: string[];
  withoutAnswer: number;
  stop(): Promise<void>;
}

export function startMinter(options: {
  /** The API to ask next. */
  apiUrl: () => string;
  account: Credentials;
  everyMs: number;
  /** Names the next fault. */
  fault: () => number;
}): Minter {
  const { client_id, client_secret, scopes } = options.account;
  const body = new URLSearchParams({
    ...{ grant_type: 'none', client_id, client_secret },
    scope: scopes.join(' '),
  }).toString();
  let stopped = false;

  async function askOnce(): Promise<void> {
    const response = await request(`${options.apiUrl()}/oauth/access_token`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body,
      headersTimeout: 10_000,
    });
    const answer = (await response.body.json()) as { access_token?: string };
    if (response.statusCode === 200 && answer.access_token !== undefined) {
      minter.tokens.push({ value: answer.access_token, fault: options.fault() });
    } else if (response.statusCode !== 503) {
      minter.wrong.push(`${response.statusCode} for a token`);
    }
  }

  async function ask(): Promise<void> {
    while (!stopped) {
      // No answer is no promise.
      await askOnce().catch(() => minter.withoutAnswer++);
      await pause(options.everyMs);
    }
  }

  const minter: Minter = {
    tokens: [],
    wrong: [],
    withoutAnswer: 0,
    async stop() {
      stopped = true;
      await running;
    },
  };
  const running = ask();
  return minter;
}

/** Those of the tokens that the API does not take, each asking for `clientToken`, which has a URL. */
export async function refusedTokens<T extends { value: string }>(
  apiUrl: string,
  clientToken: string,
  tokens: readonly T[],
): Promise<T[]> {
  const pool = new Pool(apiUrl, { connections: 4 });
  const refused: T[] = [];
  const left = [...tokens];
  async function work(): Promise<void> {
    for (let token = left.pop(); token !== undefined; token = left.pop()) {
      const response = await pool.request({
        method: 'GET',
        path: `/push_notifications?client_token=${clientToken}`,
        headers: { authorization: `Bearer ${token.value}` },
      });
      await response.body.dump();
      if (response.statusCode !== 200) refused.push(token);
    }
  }
  await Promise.all([work(), work(), work(), work()]);
  await pool.close();
  return refused;
}
