/** The service in a test's own process, on the servers of the run, with a key prefix and a task queue of its own. */
import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import type { WorkflowHandle } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import type { ActivityDeps } from '../activities/index.js';
import { createApi } from '../src/api/app.js';
import { readEnrichmentEvent } from '../src/api/calls/enrichments.js';
import type { Services } from '../src/api/deps.js';
import { type Parts, type Role, startDelivering } from '../src/compose.js';
import { readConfig, redisOptions } from '../src/config.js';
import { type Constants, constants } from '../src/constants.js';
import { createReadiness, lookEveryMs } from '../src/http/admin.js';
import { listen } from '../src/http/server.js';
import { notificationId } from '../src/ids.js';
import { createLogger, type Logger } from '../src/log.js';
import { createMetrics } from '../src/metrics.js';
import { readTargetPolicy } from '../src/outgoing/address.js';
import { type Sender, senderOf } from '../src/outgoing/post.js';
import { openDb, waitForRedis } from '../src/redis/connection/db.js';
import { markStore } from '../src/redis/connection/mark.js';
import { servesCalls } from '../src/redis/connection/needs.js';
import { getNotification, type NotificationRecord } from '../src/redis/notifications/notifications.js';
import { type ArrivedEvent, idOfClaimed } from '../src/redis/owed/claim.js';
import { createAccount } from '../src/redis/records/accounts.js';
import { createClient } from '../src/redis/records/clients.js';
import { type Endpoint, getEndpoint } from '../src/redis/records/endpoint.js';
import { markAnswered, register } from '../src/redis/records/registrations.js';
import { createSecretBox, type SecretBox } from '../src/redis/records/secretBox.js';
import { askNamespace, connect, createTemporalClient } from '../src/temporal/connection.js';
import { ensureSearchAttributes } from '../src/temporal/searchAttributes.js';
import { workflowIds } from '../src/temporal/workflowIds.js';
import { startWorkers } from '../src/worker.js';
import { watchAnswers } from './api/reference/watchAnswers.js';
import { type Receiver, startReceiver, succeeds, until } from './receiver.js';
import { atEnd, forSuite, forTest, openForSuite, redisPatience, servers, uniquePrefix } from './servers.js';

/** Settings of the environment, and values in the place of `constants`. */
export type Settings = { [name: Uppercase<string>]: string } & Partial<Constants>;

/** In the place of what the service makes by itself. */
export interface Given {
  log?: Logger | undefined;
  metrics?: Partial<Parts['metrics']>;
  /** `newClient` stores signing secrets as they are. */
  secretBox?: SecretBox;
  /** Gives a permit in the stead of the real sender. */
  permit?: (real: Sender, ...asked: Parameters<Sender['permit']>) => ReturnType<Sender['permit']>;
  lookup?: Services['lookup'];
  /** By default 10 s at the Redis of all tests, else the service's own. */
  commandTimeoutMs?: number;
}

type Slots = Parameters<typeof startWorkers>[3];

/** What fails is tried again long after a test: each failure stays as it is. */
export const patient: Settings = {
  failingAfter: 3,
  probeScheduleMs: [300_000],
  RETRY_SCHEDULE_SECONDS: '600',
  retryWindowMs: 300_000,
};

const shared = new Map<string, Promise<Harness>>();

/**
 * Returns the service, with a worker, that the files of this process share for these settings. Tests keep apart by
 * account. It stays until the process ends.
 */
export function sharedHarness(settings: Settings = {}): Promise<Harness> {
  const name = JSON.stringify(settings);
  const known = shared.get(name);
  if (known) return known;
  const starting = startWithWorker({ ACCOUNT_RATE_PER_SECOND: '10000', ...settings });
  shared.set(name, starting);
  atEnd(async () => (await starting).close());
  return starting;
}

/** Declares that a suite uses the shared service. @returns what stands for it in hooks and tests */
export const useShared = (settings?: Settings): Harness => forSuite(() => sharedHarness(settings));

export type Json = Record<string, unknown>;

/** An event of an asset, as it arrives now. */
export function arrivedEvent(
  clientToken: string,
  platformId: string,
  given: Partial<ArrivedEvent> = {},
): ArrivedEvent {
  const event = { clientToken, platformId, eventId: 'an-1', segments: ['x'] };
  const id = notificationId(event);
  return { ...event, notificationId: id, priority: 'live', notify: true, acceptedAt: Date.now(), ...given };
}

/** A log, and the lines that it has so far. */
export function keptLog(level = 'trace') {
  const lines: Json[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line));
  return { lines, log: pino({ level }, { write }) };
}

/** Calls the API. A text is sent as it is. */
export async function callApi(token: string, method: string, url: string | URL, body?: unknown) {
  const answer = await fetch(url, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: body === undefined || typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, text, body: JSON.parse(text) as Json };
}

const ofAccount = /^\/(clients|notices|console_sessions|enrichments|nowhere)/;

/** A call, repeated as the contract says where it is answered 503. */
export async function repeated<Answer extends { status: number }>(call: () => Promise<Answer>) {
  for (let tries = 4; ; tries--) {
    const answer = await call();
    if (answer.status !== 503 || tries === 1) return answer;
  }
}

export type Customer = Awaited<ReturnType<typeof newCustomer>>;

/** An account with one client and a token for all of its scopes. */
export async function newCustomer(service: Pick<Harness, 'url' | 'db'>, scopes = ['push_notifications']) {
  const account = await createAccount(service.db, { name: 'Example Media', scopes });
  const client = await createClient(service.db, {
    accountId: account.account_id,
    name: 'Example Site',
    clientToken: `SITE-${randomUUID().slice(0, 8)}`,
  });
  const customer = {
    ...account,
    client_token: client.clientToken,
    token: await newToken(service, account),
    /** Calls the API about the client. A text is sent as it is. */
    async call(method: string, path: string, body?: unknown, { url } = service) {
      const asked = new URL(path, url);
      if (!ofAccount.test(path) && !asked.searchParams.has('client_token'))
        asked.searchParams.set('client_token', customer.client_token);
      return await callApi(customer.token, method, asked, body);
    },
    read: async (path: string): Promise<Json> => (await customer.call('GET', path)).body,
    async register(url: string): Promise<void> {
      const query = new URLSearchParams({ url });
      const path = `/register_push_notifications?${query}`;
      const { status } = await repeated(() => customer.call('POST', path));
      if (status !== 200) throw new Error(`the registration was answered ${status}`);
    },
    /** Forgets the calls that sent or set something: the next eight are within the limit. */
    async forgetSends(): Promise<void> {
      const { callRate } = service.db.client(customer.client_token);
      await service.db.redis.del(callRate('sends'), callRate('settings'));
    },
  };
  return customer;
}

export type Harness = Awaited<ReturnType<typeof startHarness>>;

/** Starts all of a service, its worker too. */
export async function startWithWorker(
  settings: Settings = {},
  given: Given & { slots?: Slots } = {},
): Promise<Harness> {
  const harness = await startHarness(settings, 'all', given);
  await harness.startWorker(given.slots);
  return harness;
}

export interface HarnessScene {
  h: Harness;
  receiver: Receiver;
  /** Registered at the receiver. */
  client: string;
}

/** Declares the hooks of a suite: one harness with a worker, and for each test a receiver and a client. */
export function useHarness(settings: Settings = {}, given: Given & { slots?: Slots } = {}): HarnessScene {
  const h = openForSuite(() => startWithWorker(settings, given));
  const receiver = forTest(() => startReceiver());
  const scene = { h, receiver, client: '' };
  beforeEach(async () => {
    scene.client = await h.newClient(receiver.url);
  });
  return scene;
}

interface EventGiven {
  client: string;
  asset: string;
  eventId: string;
  segments: string[];
  priority: ArrivedEvent['priority'];
  notify: boolean;
}

let count = 0;
const none = () => undefined;

/** @param role `worker`: events are claimed by one process, which has the API, and delivered by another */
export async function startHarness(settings: Settings = {}, role: Role = 'all', given: Given = {}) {
  const { KEY_PREFIX: prefix = uniquePrefix() } = settings as Record<string, string>;
  const replaced = Object.entries(settings).filter(([name]) => name in constants);
  const fromEnvironment = readConfig({
    REDIS_URL: servers().redisUrl,
    TEMPORAL_ADDRESS: servers().temporalAddress,
    KEY_PREFIX: prefix,
    TASK_QUEUE: `${prefix}queue`,
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
    ...(settings as Record<string, string>),
  });
  const config = { ...fromEnvironment, heldRefusalMs: 0, ...Object.fromEntries(replaced) };
  const log = given.log ?? createLogger(process.env.TEST_LOG ?? 'silent', 'test');
  const clock = { offsetMs: 0 };
  const db = openDb({
    ...redisOptions(config),
    log,
    clockOffsetMs: () => clock.offsetMs,
    ...redisPatience(config.REDIS_URL),
    ...(given.commandTimeoutMs && { commandTimeoutMs: given.commandTimeoutMs }),
  });
  await waitForRedis(db, 5000);
  await markStore(db);
  const native = role === 'api' ? undefined : await NativeConnection.connect(config.temporalConnection);
  if (native) await ensureSearchAttributes(native, config.TEMPORAL_NAMESPACE, log);
  const connection = native ?? connect(config);
  const metrics = Object.assign(createMetrics(), given.metrics);
  const temporal = createTemporalClient(connection, config, metrics.temporalAnswered);
  const targetPolicy = readTargetPolicy(config);
  const real = senderOf(config, targetPolicy);
  const { permit } = given;
  const sender = permit ? Object.assign(Object.create(real), { permit: permit.bind(undefined, real) }) : real;
  const secretBox = given.secretBox ?? createSecretBox(config.SECRETS_KEY);
  const parts = { config, db, log, temporal, sender, secretBox, metrics };
  const delivering = await startDelivering({ ...parts, role });
  const apart = role === 'worker' ? await startDelivering({ ...parts, role: 'api' }) : undefined;
  const { hands, catchUps } = apart ?? delivering;
  /** Of the activities; none with the role `api`. */
  const deps = delivering as ActivityDeps;

  const closing = new AbortController();
  setMaxListeners(0, closing.signal);
  const apiDeps: Services = {
    ...(apart ?? delivering),
    targetPolicy,
    closing: closing.signal,
    ...(given.lookup && { lookup: given.lookup }),
    readiness: createReadiness({
      redis: () => servesCalls(db),
      temporal: () => askNamespace(temporal, lookEveryMs),
      ending: () => false,
    }),
  };
  const server = await listen({ HOST: '127.0.0.1', PORT: 0 }, createApi(apiDeps));
  const url = `http://127.0.0.1:${server.port}`;
  watchAnswers(url);

  const plain = createSecretBox(undefined);
  const account = await createAccount(db, { name: 'A media company', scopes: ['push_notifications'] });
  let running: Awaited<ReturnType<typeof startWorkers>> | undefined;
  const ids = workflowIds(config.TASK_QUEUE);
  const harness = {
    url,
    prefix,
    db,
    temporal,
    sender,
    delivering,
    apiDeps,
    deps,
    ids,
    taskQueue: config.TASK_QUEUE,
    /** Moves Redis' clock, as the scripts see it, ahead. */
    skip(ms: number): void {
      clock.offsetMs += ms;
    },
    /** @param clientToken of another installation's client; a new one without it */
    async newClient(url?: string, clientToken = `SITE${prefix}${++count}`): Promise<string> {
      await createClient(db, { accountId: account.account_id, name: 'A site', clientToken });
      if (url !== undefined) await harness.registerUrl(clientToken, url);
      return clientToken;
    },
    async registerUrl(clientToken: string, url: string): Promise<void> {
      const stored = await register(db, plain, clientToken, url, { maySetHeaders: true });
      if (stored.outcome !== 'stored') throw new Error('it has a URL already');
      await markAnswered(db, clientToken, stored.nonce);
    },
    async publish({ client, asset, ...given }: Pick<EventGiven, 'client' | 'asset'> & Partial<EventGiven>) {
      const event = readEnrichmentEvent(
        {
          client_token: client,
          platform_id: asset,
          segments: given.segments ?? [`segment-${++count}`],
          event_id: given.eventId,
          priority: given.priority,
          notify: given.notify,
        },
        '',
      );
      if ('problem' in event) throw new Error(event.problem);
      const claim = await hands.accept({ ...event, acceptedAt: Date.now() + clock.offsetMs });
      const kind: string =
        claim.kind === 'none' ? claim.reason : claim.kind === 'claimed' ? 'queued' : claim.kind;
      return { id: idOfClaimed(event, claim), kind };
    },
    /** Publishes events of so many assets together. @returns their notifications' ids */
    publishAll: (client: string, name: string, count: number): Promise<string[]> =>
      Promise.all(
        Array.from({ length: count }, async (_, i) => {
          const { id } = await harness.publish({ client, asset: `${name}-${i}` });
          return id;
        }),
      ),
    notification: (client: string, id: string) => getNotification(db, client, id),
    reaches: (client: string, id: string, state: NotificationRecord['state']) =>
      until(`${id} is ${state}`, async () => {
        const found = await getNotification(db, client, id);
        return found?.state === state && found;
      }),
    delivered: (client: string, id: string): Promise<NotificationRecord> =>
      harness.reaches(client, id, 'delivered'),
    attempted: (client: string, id: string, times = 1): Promise<NotificationRecord> =>
      until(`${id} was attempted`, async () => {
        const found = await getNotification(db, client, id);
        return found !== undefined && found.attempts.length >= times && found;
      }),
    endpoint: (client: string): Promise<Endpoint> => getEndpoint(db, client),
    async noneOwed(client: string): Promise<void> {
      const isDone = async () => (await getEndpoint(db, client).catch(() => undefined))?.owed === 0;
      await until('nothing is owed', isDone, 60_000);
    },
    /** How many notifications this process has counted as ended in a state. */
    async ended(state: NotificationRecord['state']): Promise<number> {
      const name = 'asset_update_notifications_ended_total';
      const all = await harness.apiDeps.metrics.registry.getSingleMetric(name)?.get();
      return all?.values.find(({ labels }) => labels.state === state)?.value ?? 0;
    },
    async wake(client: string): Promise<void> {
      await catchUps.wake(client);
    },
    catchUp: (client: string): WorkflowHandle => temporal.workflow.getHandle(ids.catchUp(client)),
    memo: async (client: string): Promise<Json | undefined> => (await harness.catchUpRun(client))?.memo,
    catchUpRun: (client: string) => harness.catchUp(client).describe().catch(none),
    /** The workflow that an event is in, alone or with others, once it is started. */
    async workflowOf(client: string, id: string): Promise<WorkflowHandle> {
      const group = (await getNotification(db, client, id))?.group;
      const workflowId = group === undefined ? ids.enrichment(client, id) : ids.group(group);
      const handle = temporal.workflow.getHandle(workflowId);
      await until('its workflow is started', () => succeeds(handle.describe()));
      return handle;
    },
    async startWorker(slots?: Slots): Promise<void> {
      running = await startWorkers(config, native as NativeConnection, deps, slots);
    },
    async stopWorker(): Promise<void> {
      running?.shutdown();
      await running?.ended;
      running = undefined;
    },
    async sweep(): Promise<void> {
      await temporal.workflow.execute('sweep', {
        workflowId: `sweep-${config.TASK_QUEUE}`,
        taskQueue: config.TASK_QUEUE,
      });
    },
    async close(): Promise<void> {
      closing.abort();
      await server.close();
      await Promise.all([delivering.endStarts(), apart?.endStarts()]);
      await harness.stopWorker();
      await delivering.close();
      await apart?.close();
      await real.close();
      await connection.close();
      db.redis.disconnect();
    },
  };
  return harness;
}

/** The four fields of a correct token call. */
export function tokenFields(account: { client_id: string; client_secret: string; scopes: string[] }) {
  return {
    grant_type: 'none',
    client_id: account.client_id,
    client_secret: account.client_secret,
    scope: account.scopes.join(' '),
  };
}

export async function newToken(
  service: { url: string },
  account: { client_id: string; client_secret: string; scopes: string[] },
): Promise<string> {
  const answer = await fetch(`${service.url}/oauth/access_token`, {
    method: 'POST',
    body: new URLSearchParams(tokenFields(account)),
  });
  const { access_token: token } = (await answer.json()) as { access_token: string };
  return token;
}
