import { request } from 'undici';
import { createAccount, platformScope } from '../src/redis/records/accounts.js';
import { createClient } from '../src/redis/records/clients.js';
import { createSigningSecret } from '../src/redis/records/secrets.js';
import type { Receiver } from './arrivals.js';
import { startChild } from './child.js';
import type { FromPublisher, FromReceiver, ToPublisher, ToReceiver } from './jobs.js';
import type { Publisher } from './measure.js';
import type { Pids } from './processUsage.js';
import { makeEvent } from './requestSource.js';
import { type Stack, type StackOptions, startStack } from './stack.js';

/** The target of a load: the service, or the floor. */
export interface Target {
  baseUrls: string[];
  platformToken: string;
  /** The processes of the target, with the benchmark's own. */
  pids: Pids;
  newClients(count: number): Promise<string[]>;
}

/** Everything that runs during a measurement. */
export interface Theatre {
  stack: Stack;
  service: Target;
  /** Absent unless it was asked for. */
  floor?: Target;
  /** The account of all clients, and a token of it. */
  account: { clientId: string; clientSecret: string; accessToken: string };
  publisher: Publisher;
  receiver: Receiver;
  stop(): Promise<void>;
}

/** Starts the service, its servers, the benchmark's processes, and the floor if `options.floor` is set. */
export async function startTheatre(options: StackOptions & { floor?: boolean }): Promise<Theatre> {
  const stack = await startStack(options);
  const children: { stop(): Promise<void> }[] = [];
  const stop = async () => {
    for (const child of children) await child.stop();
    await stack.stop();
  };
  const start = async <To extends object, From extends { kind: string }>(
    name: string,
    env?: Record<string, string>,
  ) => {
    const one = await startChild<To, From>(name, env);
    children.push(one.child);
    return one;
  };
  try {
    const { child: publisher } = await start<ToPublisher, FromPublisher>('publisher');
    const { child: receiver, ready } = await start<ToReceiver, FromReceiver>('receiver');
    if (ready.kind !== 'ready') throw new Error('the receiver has no port');
    const receiverUrl = `http://127.0.0.1:${ready.port}`;
    const own = { publisher: publisher.pid, receiver: receiver.pid };
    const startFloor = async (): Promise<Target> => {
      const env = { NODE_ENV: 'production', REDIS_URL: stack.redisUrl, RECEIVER_URL: receiverUrl };
      const { child, ready } = await start<never, { kind: 'ready'; port: number }>('floor', env);
      const redis: Pids = stack.pids.redis === undefined ? {} : { redis: stack.pids.redis };
      return {
        baseUrls: [`http://127.0.0.1:${ready.port}`],
        platformToken: 'none',
        pids: { floor: child.pid, ...redis, ...own },
        newClients: async (count) => Array.from({ length: count }, (_, i) => `floor-${i}`),
      };
    };
    return {
      stack,
      ...(await castIn(stack, receiverUrl, { ...stack.pids, ...own })),
      ...(options.floor && { floor: await startFloor() }),
      publisher,
      receiver,
      stop,
    };
  } catch (err) {
    await stop();
    throw err;
  }
}

/** Makes the accounts of a run: a publisher with its clients, and the platform. */
export async function castIn(
  stack: Pick<Stack, 'db' | 'secretBox' | 'baseUrl' | 'baseUrls'>,
  receiverUrl: string,
  pids: Pids,
): Promise<Pick<Theatre, 'service' | 'account'>> {
  const { db, secretBox, baseUrl } = stack;
  const publisher = await createAccount(db, { name: 'benchmark publisher' });
  const platform = await createAccount(db, { name: 'benchmark platform', scopes: [platformScope] });
  const mint = async ({ client_id, client_secret, scopes }: typeof publisher) => {
    const fields = { grant_type: 'none', client_id, client_secret, scope: scopes.join(' ') };
    const answer = await call(`${baseUrl}/oauth/access_token`, {
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: String(new URLSearchParams(fields)),
    });
    return (answer as { access_token: string }).access_token;
  };
  const accessToken = await mint(publisher);
  const newClient = async (i: number) => {
    const { clientToken } = await createClient(db, { accountId: publisher.account_id, name: `site ${i}` });
    await createSigningSecret(db, secretBox, clientToken);
    const query = new URLSearchParams({ client_token: clientToken, url: `${receiverUrl}/${clientToken}` });
    await call(`${baseUrl}/register_push_notifications?${query}`, {
      headers: { authorization: `Bearer ${accessToken}` },
    });
    return clientToken;
  };
  const newClients = async (count: number) => {
    const clientTokens: string[] = [];
    for (let i = 0; i < count; i++) clientTokens.push(await newClient(i));
    return clientTokens;
  };
  return {
    service: { baseUrls: stack.baseUrls, platformToken: await mint(platform), pids, newClients },
    account: { clientId: publisher.client_id, clientSecret: publisher.client_secret, accessToken },
  };
}

/** Makes the segments of `count` events known, which make no notification. @throws if one is refused */
export async function makeKnown(
  { baseUrls, platformToken }: Target,
  job: Parameters<typeof makeEvent>[0],
  count: number,
): Promise<void> {
  for (let from = 0; from < count; from += 100) {
    const events = Array.from({ length: 100 }, (_, i) => ({ ...makeEvent(job, from + i), notify: false }));
    const answer = await call(`${baseUrls[0]}/enrichments`, {
      headers: { 'content-type': 'application/json', authorization: `Bearer ${platformToken}` },
      body: JSON.stringify({ events }),
    });
    const refused = (answer as { results: { code?: string }[] }).results.find(
      ({ code }) => code !== undefined,
    );
    if (refused) throw new Error(`not accepted: ${JSON.stringify(refused)}`);
  }
}

/** POSTs, and returns the answer's JSON. @throws if the answer is not a success */
export async function call(
  url: string,
  options: { headers: Record<string, string>; body?: string; method?: 'PUT' },
): Promise<unknown> {
  const { statusCode, body } = await request(url, { method: 'POST', ...options });
  const text = await body.text();
  if (statusCode >= 300) throw new Error(`${new URL(url).pathname}: ${statusCode} ${text.slice(0, 300)}`);
  return JSON.parse(text);
}
