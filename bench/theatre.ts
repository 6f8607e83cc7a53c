import { request } from 'undici';
import { createAccount, platformScope } from '../src/redis/records/accounts.js';
import { createClient } from '../src/redis/records/clients.js';
import { createSigningSecret } from '../src/redis/records/secrets.js';
import { startChild } from './child.js';
import { callers, type Load } from './loads.js';
import type { Pids } from './processUsage.js';
import { knownAssets, Publisher, type Receiver, type Running } from './publisher.js';
import type { FromReceiver, ToReceiver } from './receiver.js';
import { type Stack, type StackOptions, startStack } from './stack.js';

/** The target of a load: the service, or the floor. */
export interface Target {
  /** The processes of the target, and the receiver. */
  pids: Pids;
  newClients(count: number): Promise<string[]>;
  /** @param more members of each event */
  publishingTo(clientTokens: string[], load?: Pick<Load, 'isKnown'>, more?: { notify: false }): Running;
}

/** Everything that runs during a measurement. */
export interface Theatre {
  stack: Stack;
  service: Target;
  /** Absent unless it was asked for. */
  floor?: Target;
  /** The account of all clients, and a token of it. */
  account: { clientId: string; clientSecret: string; accessToken: string };
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
  try {
    const { child: receiver, ready } = await startChild<ToReceiver, FromReceiver>('receiver');
    children.push(receiver);
    const receiverUrl = `http://127.0.0.1:${ready.port}`;
    const own = { receiver: receiver.pid };
    const startFloor = async (): Promise<Target> => {
      const env = { NODE_ENV: 'production', REDIS_URL: stack.redisUrl, RECEIVER_URL: receiverUrl };
      const { child, ready } = await startChild<never, { kind: 'ready'; port: number }>('floor', env);
      children.push(child);
      const redis: Pids = stack.pids.redis === undefined ? {} : { redis: stack.pids.redis };
      const door = { baseUrls: [`http://127.0.0.1:${ready.port}`], platformToken: 'none' };
      return {
        publishingTo: (tokens) => publishing(door, tokens),
        pids: { floor: child.pid, ...redis, ...own },
        newClients: async (count) => Array.from({ length: count }, (_, i) => `floor-${i}`),
      };
    };
    return {
      stack,
      ...(await castIn(stack, receiverUrl, { ...stack.pids, ...own })),
      ...(options.floor && { floor: await startFloor() }),
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
  const door = { baseUrls: stack.baseUrls, platformToken: await mint(platform) };
  const publishingTo: Target['publishingTo'] = (...to) => publishing(door, ...to);
  return {
    service: { pids, newClients, publishingTo },
    account: { clientId: publisher.client_id, clientSecret: publisher.client_secret, accessToken },
  };
}

const publishing = (
  { baseUrls, platformToken }: { baseUrls: string[]; platformToken: string },
  clientTokens: readonly string[],
  { isKnown }: Pick<Load, 'isKnown'> = {},
  more = {},
): Running => ({
  baseUrls,
  paths: clientTokens.map((token) => `/${token}`),
  accepted: `"notification":"${isKnown ? 'none' : 'queued'}"`,
  request(batch) {
    const events = batch.map(({ id, asset, site }) => {
      const segments = [0, 1, 2].map((segment) => `iab:${asset}-${segment}`);
      return { event_id: id, client_token: clientTokens[site], platform_id: asset, segments, ...more };
    });
    return {
      path: '/enrichments',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${platformToken}` },
      body: JSON.stringify(events.length === 1 ? events[0] : { events }),
    };
  },
});

/** Makes the segments of clients known, which makes no notification. @throws if one is refused */
export async function makeKnown({ publishingTo }: Target, clientTokens: string[]): Promise<void> {
  const total = clientTokens.length * knownAssets;
  const load = { pace: callers(1), batchSize: 100, total, isKnown: true } as const;
  const publisher = new Publisher(load, publishingTo(clientTokens, load, { notify: false }));
  await publisher.publish();
  if (publisher.oddity) throw new Error(`not accepted: ${publisher.oddity}`);
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
