/**
 * The service in a test's own process, on the servers of the run, with a key prefix and a task queue of its own: its API
 * (`startApi`), or what accepts and delivers events, and a worker (`startHarness`).
 */

import { randomUUID } from 'node:crypto';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import type { ActivityDeps } from '../activities/index.js';
import { createReadiness, lookEveryMs } from '../src/api/admin.js';
import { createApi } from '../src/api/app.js';
import { listen } from '../src/api/server.js';
import type { ApiDeps } from '../src/api/step.js';
import { type Delivering, type DeliveryOptions, type Role, startDelivering } from '../src/compose.js';
import { durabilityOf, readConfig } from '../src/config.js';
import { type Constants, constants } from '../src/constants.js';
import { readEnrichmentEvent } from '../src/delivery/event.js';
import { createLogger, type Logger } from '../src/log.js';
import { createMetrics } from '../src/metrics.js';
import { createSender, type Sender } from '../src/outgoing/post.js';
import { type Db, openDb, waitForRedis } from '../src/redis/connection/db.js';
import { getNotification, type NotificationRecord } from '../src/redis/notifications/notifications.js';
import { createAccount } from '../src/redis/records/accounts.js';
import { createClient } from '../src/redis/records/clients.js';
import { markAnswered, register } from '../src/redis/records/registrations.js';
import { createSecretBox, type SecretBox } from '../src/redis/records/secretBox.js';
import { askServer, clientOf, connect } from '../src/temporal/connection.js';
import { ensureSearchAttributes } from '../src/temporal/searchAttributes.js';
import { type WorkflowIds, workflowIds } from '../src/temporal/workflowIds.js';
import { type Running, type Slots, startWorkers } from '../src/worker.js';
import { watchAnswers } from './api/reference/watchAnswers.js';
import { until } from './receiver.js';
import { atEnd, redisPatience, servers, uniquePrefix } from './servers.js';

/** Settings of the environment, and values in the place of `constants`. */
export type Settings = { [name: Uppercase<string>]: string } & Partial<Constants>;

/** In the place of what the service makes by itself. */
export interface Given {
  log?: Logger | undefined;
  metrics?: Partial<DeliveryOptions['metrics']>;
  /** Of the deliveries; `newClient` stores signing secrets as they are. */
  secretBox?: SecretBox;
  /** Gives a place in the stead of the real sender. */
  place?: (real: Sender, ...asked: Parameters<Sender['place']>) => ReturnType<Sender['place']>;
}

async function openParts(role: Role, settings: Settings, given: Given) {
  const prefix = uniquePrefix();
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
  const config = { ...fromEnvironment, ...Object.fromEntries(replaced) };
  const log = given.log ?? createLogger(process.env.TEST_LOG ?? 'silent', 'test');
  const clock = { offsetMs: 0 };
  const db = openDb({
    url: config.REDIS_URL,
    prefix: config.KEY_PREFIX,
    log,
    durability: durabilityOf(config),
    clockOffsetMs: () => clock.offsetMs,
    ...redisPatience(config.REDIS_URL),
  });
  await waitForRedis(db, 5000);
  const native = role === 'api' ? undefined : await NativeConnection.connect(config.temporalConnection);
  const connection = native ?? connect(config);
  const targetPolicy = {
    allowHttp: config.ALLOW_HTTP_TARGETS,
    allowedCidrs: config.ALLOWED_TARGET_CIDRS,
    ownPorts: config.OWN_PORTS,
  };
  const sender = createSender({
    policy: targetPolicy,
    timeoutMs: config.ATTEMPT_TIMEOUT_SECONDS * 1000,
    connectionsPerOrigin: config.connectionsPerOrigin,
  });
  const { place } = given;
  const parts = {
    ...{ config, db, log },
    temporal: clientOf(connection, config),
    sender: place ? Object.assign(Object.create(sender), { place: place.bind(undefined, sender) }) : sender,
    secretBox: given.secretBox ?? createSecretBox(config.SECRETS_KEY),
    metrics: Object.assign(createMetrics(), given.metrics),
  };
  return {
    ...{ ...parts, clock, native, connection, targetPolicy },
    delivering: await startDelivering({ ...parts, role }),
    async close() {
      await sender.close();
      await connection.close();
      db.redis.disconnect();
    },
  };
}

export interface RunningApi {
  url: string;
  prefix: string;
  deps: ApiDeps;
  close(): Promise<void>;
}

export async function startApi(
  options: {
    env?: Record<string, string>;
    redisUrl?: string;
    temporalAddress?: string;
    prefix?: string;
    lookup?: ApiDeps['lookup'];
    log?: Logger;
  } = {},
): Promise<RunningApi> {
  const prefix = options.prefix ?? uniquePrefix();
  const settings = {
    ...{ KEY_PREFIX: prefix, TASK_QUEUE: prefix, ATTEMPT_TIMEOUT_SECONDS: '2' },
    ...(options.redisUrl && { REDIS_URL: options.redisUrl }),
    ...(options.temporalAddress && { TEMPORAL_ADDRESS: options.temporalAddress }),
    ...options.env,
  };
  const parts = await openParts('api', settings, { log: options.log });
  const { delivering, connection } = parts;
  const { accepting, catchUps, notices } = delivering;
  const closing = new AbortController();
  const deps: ApiDeps = {
    ...{ ...parts, accepting, catchUps, notices, lookup: options.lookup, closing: closing.signal },
    readiness: createReadiness({
      redis: () => parts.db.nodes.ping(),
      temporal: () => askServer(connection, lookEveryMs),
      ending: () => false,
    }),
  };
  const server = await listen({ HOST: '127.0.0.1', PORT: 0 }, createApi(deps));
  const url = `http://127.0.0.1:${server.port}`;
  watchAnswers(url);
  return {
    url,
    prefix,
    deps,
    async close() {
      closing.abort();
      await server.close();
      await delivering.endStarts();
      await delivering.close();
      await parts.close();
    },
  };
}

let shared: Promise<RunningApi> | undefined;

/**
 * Returns the API that the files of this process share, for tests that need no setting, fault or counted calls of their own.
 * They keep apart by account. It stays until the process ends.
 */
export function sharedApi(): Promise<RunningApi> {
  if (shared === undefined) {
    const started = startApi();
    shared = started;
    atEnd(async () => (await started).close());
  }
  return shared;
}

/** An account with one client. */
export async function newCustomer({ deps }: RunningApi, scopes: string[] = ['push_notifications']) {
  const account = await createAccount(deps.db, { name: 'Example Media', scopes });
  const client = await createClient(deps.db, {
    accountId: account.account_id,
    name: 'Example Site',
    clientToken: `SITE-${randomUUID().slice(0, 8)}`,
  });
  return { ...account, client_token: client.clientToken };
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
  api: Pick<RunningApi, 'url'>,
  account: { client_id: string; client_secret: string; scopes: string[] },
): Promise<string> {
  const answer = await fetch(`${api.url}/oauth/access_token`, {
    method: 'POST',
    body: new URLSearchParams(tokenFields(account)),
  });
  const { access_token: token } = (await answer.json()) as { access_token: string };
  return token;
}

export interface Harness {
  db: Db;
  temporal: Client;
  sender: Sender;
  delivering: Delivering;
  deps: ActivityDeps;
  taskQueue: string;
  ids: WorkflowIds;
  /** Moves Redis' clock, as the scripts see it, ahead. */
  skip(ms: number): void;
  /** @param clientToken of another installation's client; a new one without it */
  newClient(url?: string, clientToken?: string): Promise<string>;
  registerUrl(client: string, url: string): Promise<void>;
  /** Accepts an event as the API does. */
  publish(
    event: Partial<EventGiven> & { client: string; asset: string },
  ): Promise<{ id: string; kind: string }>;
  /** Undefined until it is claimed. */
  notification(client: string, id: string): Promise<NotificationRecord | undefined>;
  delivered(client: string, id: string): Promise<NotificationRecord>;
  /** Has catch-up look at what the client is owed. */
  wake(client: string): Promise<void>;
  /** The workflow that an event is in, alone or with others, once it is started. */
  workflowOf(client: string, id: string): Promise<WorkflowHandle>;
  startWorker(slots?: Slots): Promise<void>;
  stopWorker(): Promise<void>;
  /** One run of the sweep, to its end. */
  sweep(): Promise<void>;
  close(): Promise<void>;
}

interface EventGiven {
  eventId: string;
  segments: string[];
  priority: 'live' | 'backfill';
  notify: boolean;
}

let count = 0;

/** @param role `all`: as one process; `worker`: events are claimed by one process and delivered by another */
export async function startHarness(
  settings: Settings = {},
  role: Exclude<Role, 'api'> = 'all',
  given: Given = {},
): Promise<Harness> {
  const parts = await openParts(role, settings, given);
  const { clock, config, db, delivering, log, sender, temporal } = parts;
  const native = parts.native as NativeConnection;
  await ensureSearchAttributes(native, config.TEMPORAL_NAMESPACE, log);
  const apart = role === 'all' ? undefined : await startDelivering({ ...parts, role: 'api' });
  const { accepting } = apart ?? delivering;
  const deps = delivering.activityDeps as ActivityDeps;
  const plain = createSecretBox(undefined);
  const account = await createAccount(db, { name: 'A media company', scopes: ['push_notifications'] });
  let running: Running | undefined;

  const harness: Harness = {
    ...{ db, temporal, sender, delivering, deps },
    taskQueue: config.TASK_QUEUE,
    ids: workflowIds(config.TASK_QUEUE),
    skip(ms) {
      clock.offsetMs += ms;
    },
    async newClient(url, clientToken = `SITE${db.prefix}${++count}`) {
      await createClient(db, { accountId: account.account_id, name: 'A site', clientToken });
      if (url !== undefined) await harness.registerUrl(clientToken, url);
      return clientToken;
    },
    async registerUrl(clientToken, url) {
      const stored = await register(db, plain, { clientToken, accountId: account.account_id, url });
      if (stored.outcome !== 'stored') throw new Error('it has a URL already');
      await markAnswered(db, clientToken, stored.nonce);
    },
    async publish({ client, asset, eventId, segments, priority, notify }) {
      const event = readEnrichmentEvent(
        {
          client_token: client,
          platform_id: asset,
          segments: segments ?? [`segment-${++count}`],
          event_id: eventId,
          priority,
          notify,
        },
        '',
      );
      if ('problem' in event) throw new Error(event.problem);
      const claim = await accepting.accept({ ...event, acceptedAt: Date.now() + clock.offsetMs });
      const kind = claim.kind === 'none' ? claim.reason : claim.kind === 'claimed' ? 'queued' : claim.kind;
      return { id: event.notificationId, kind };
    },
    notification: (client, id) => getNotification(db, client, id),
    delivered: (client, id) =>
      until(`${id} is delivered`, async () => {
        const found = await harness.notification(client, id);
        return found?.state === 'delivered' && found;
      }),
    async wake(client) {
      await delivering.catchUps.wakeNow(client);
    },
    async workflowOf(client, id) {
      const group = (await harness.notification(client, id))?.group;
      const { ids } = harness;
      const handle = temporal.workflow.getHandle(
        group === undefined ? ids.enrichment(client, id) : ids.group(group),
      );
      await until('its workflow is started', () =>
        handle.describe().then(
          () => true,
          () => false,
        ),
      );
      return handle;
    },
    async startWorker(slots) {
      running = await startWorkers(config, native, deps, slots);
    },
    async stopWorker() {
      running?.shutdown();
      await running?.ended;
      running = undefined;
    },
    async sweep() {
      await temporal.workflow.execute('sweep', {
        workflowId: `sweep-${config.TASK_QUEUE}`,
        taskQueue: config.TASK_QUEUE,
      });
    },
    async close() {
      await Promise.all([delivering.endStarts(), apart?.endStarts()]);
      await harness.stopWorker();
      await delivering.close();
      await apart?.close();
      await parts.close();
    },
  };
  return harness;
}
