/**
 * What a delivery test needs of the real thing: a key prefix and task queue of its own, a worker and what accepts
 * events in this process, an account with clients, and a receiver that keeps what it got.
 */
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Client, WorkflowHandle } from '@temporalio/client';
import { NativeConnection } from '@temporalio/worker';
import { type Delivering, type DeliveryOptions, type Role, startDelivering } from '../../src/compose.js';
import { readConfig } from '../../src/config.js';
import { type Constants, constants } from '../../src/constants.js';
import { readEnrichmentEvent } from '../../src/delivery/event.js';
import { createLogger, type Logger } from '../../src/log.js';
import { createSender, type Sender } from '../../src/outgoing/post.js';
import { type Db, openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { getNotification, type NotificationRecord } from '../../src/redis/notifications/notifications.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { markAnswered, register } from '../../src/redis/records/registrations.js';
import { createSecretBox, type SecretBox } from '../../src/redis/records/secretBox.js';
import { clientOf } from '../../src/temporal/connection.js';
import { ensureSearchAttributes } from '../../src/temporal/searchAttributes.js';
import { type WorkflowIds, workflowIds } from '../../src/temporal/workflowIds.js';
import type { ActivityDeps } from '../../src/upkeep/deps.js';
import { type Running, type Slots, startWorkers } from '../../src/worker.js';
import { redisPatience, servers, uniquePrefix } from '../servers.js';

export interface Received {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  at: number;
}

type Answer = number | 'hang' | { status: number; headers: Record<string, string> };

export interface Receiver {
  url: string;
  received: Received[];
  /** The answers to the next requests; `hang` is never answered. */
  answer: (request: Received) => Answer | Promise<Answer>;
  /** Each answer is given so much later. */
  delayMs: number;
  /** Requests without an answer at one time, at most. */
  mostInFlight: number;
  idsOf(platformId: string): string[];
  close(): Promise<void>;
}

export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  const receiver = {
    received,
    answer: () => 200,
    delayMs: 0,
    mostInFlight: 0,
    idsOf: (platformId: string) =>
      received
        .filter((r) => (JSON.parse(r.body) as { platform_id: string }).platform_id === platformId)
        .map((r) => String(r.headers['webhook-id'])),
  } as unknown as Receiver;
  let inFlight = 0;
  const server: Server = createServer((req, res) => {
    receiver.mostInFlight = Math.max(receiver.mostInFlight, ++inFlight);
    res.on('close', () => {
      inFlight--;
    });
    let body = '';
    req.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    req.on('end', async () => {
      const one = { path: req.url ?? '', headers: req.headers, body, at: Date.now() };
      received.push(one);
      const answer = await receiver.answer(one);
      if (answer === 'hang') return;
      setTimeout(() => {
        if (typeof answer === 'number') res.writeHead(answer).end();
        else res.writeHead(answer.status, answer.headers).end();
      }, receiver.delayMs);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`;
  receiver.close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return receiver;
}

export interface Harness {
  db: Db;
  temporal: Client;
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

/** In the place of what the harness makes. */
export interface Given {
  log?: Logger;
  metrics?: Partial<Metrics>;
  /** Of the deliveries; `newClient` stores signing secrets as they are. */
  secretBox?: SecretBox;
  sender?: (real: Sender) => Sender;
}

type Metrics = DeliveryOptions['metrics'];

/** Settings of the environment, and values in the place of `constants`. */
export type Settings = { [name: Uppercase<string>]: string } & Partial<Constants>;

let count = 0;

/** @param role `all`: as one process; `worker`: events are claimed by one process and delivered by another */
export async function startHarness(
  settings: Settings = {},
  role: Exclude<Role, 'api'> = 'all',
  given: Given = {},
): Promise<Harness> {
  const prefix = uniquePrefix();
  const replaced = Object.entries(settings).filter(([name]) => name in constants);
  const fromEnvironment = readConfig({
    REDIS_URL: servers().redisUrl,
    TEMPORAL_ADDRESS: servers().temporalAddress,
    KEY_PREFIX: prefix,
    TASK_QUEUE: `${prefix}queue`,
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
    LOG_LEVEL: 'warn',
    ...(settings as Record<string, string>),
  });
  const config = { ...fromEnvironment, ...Object.fromEntries(replaced) };
  const log = given.log ?? createLogger(process.env.TEST_LOG ?? 'silent', 'test');
  let offsetMs = 0;
  const db = openDb({
    url: config.REDIS_URL,
    prefix: config.KEY_PREFIX,
    log,
    clockOffsetMs: () => offsetMs,
    ...redisPatience(config.REDIS_URL),
  });
  await waitForRedis(db, 5000);
  const connection = await NativeConnection.connect(config.temporalConnection);
  await ensureSearchAttributes(connection, config.TEMPORAL_NAMESPACE, log);
  const temporal = clientOf(connection, config);
  const plain = createSecretBox(undefined);
  const secretBox = given.secretBox ?? plain;
  const real = createSender({
    policy: { allowHttp: true, allowedCidrs: ['127.0.0.0/8'], ownPorts: [] },
    timeoutMs: config.ATTEMPT_TIMEOUT_SECONDS * 1000,
    connectionsPerOrigin: config.connectionsPerOrigin,
  });
  const sender = given.sender?.(real) ?? real;
  const metrics: Metrics = {
    attempted() {},
    ended() {},
    entered() {},
    firstAttempted() {},
    delivered() {},
    ownFailure() {},
    started() {},
    withoutWorkflow() {},
    ...given.metrics,
  };
  const parts = { config, db, temporal, sender, secretBox, log, metrics };
  const delivering = await startDelivering({ ...parts, role });
  const apart = role === 'all' ? undefined : await startDelivering({ ...parts, role: 'api' });
  const { accepting } = apart ?? delivering;
  const deps = delivering.activityDeps as ActivityDeps;
  const account = await createAccount(db, { name: 'A media company', scopes: ['push_notifications'] });
  let running: Running | undefined;

  const harness: Harness = {
    db,
    temporal,
    delivering,
    deps,
    taskQueue: config.TASK_QUEUE,
    ids: workflowIds(config.TASK_QUEUE),
    skip(ms) {
      offsetMs += ms;
    },
    async newClient(url, clientToken = `SITE${prefix}${++count}`) {
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
      const claim = await accepting.accept({ ...event, acceptedAt: Date.now() + offsetMs });
      const kind = claim.kind === 'none' ? claim.reason : claim.kind === 'claimed' ? 'queued' : claim.kind;
      return { id: event.notificationId, kind };
    },
    async notification(client, id) {
      return await getNotification(db, client, id);
    },
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
      running = await startWorkers(config, connection, deps, slots);
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
      await sender.close();
      await connection.close();
      db.redis.disconnect();
    },
  };
  return harness;
}

/** Answers of a receiver that wait until they are let go. */
export function startGate(): { closed: Promise<void>; open(): void } {
  let open: () => void = () => undefined;
  const closed = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { closed, open };
}

/** Waits for a fact, and says which one did not come about. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  ms = 30_000,
): Promise<T> {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    if (Date.now() > end) throw new Error(`did not come about in ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
