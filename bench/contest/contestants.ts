import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { answersOk } from '../../local/child.js';
import { freePort } from '../../local/ports.js';
import type { Event, Running } from '../publisher.js';
import { startStack } from '../stack.js';
import { call, castIn } from '../theatre.js';
import type { Parts } from './parts.js';

/** The waits before each further attempt, the same for all. */
export const retryScheduleSeconds = [5, 30, 60, 120];

export interface Contestant {
  name: string;
  takesBatches?: true;
  /** The name of its process, and of the store that holds acknowledged events. */
  service: string;
  store: string;
  start(parts: Parts, receiverUrl: string): Promise<Running>;
}

const sites = 50;
const paths = Array.from({ length: sites }, (_, site) => `/site-${site}`);
const json = { 'content-type': 'application/json' };
const notification = (id: string) => ({ event: 'asset-update', platform_id: id });

export const thisService: Contestant = {
  name: 'this service',
  takesBatches: true,
  service: 'all',
  store: 'redis',
  async start(parts, receiverUrl) {
    const env = { RETRY_SCHEDULE_SECONDS: retryScheduleSeconds.join(',') };
    const stack = await startStack({ split: false, givenPids: {}, run: parts.run, env });
    parts.beforeEnd = () => stack.stop();
    const { service } = await castIn(stack, receiverUrl, {});
    return service.publishingTo(await service.newClients(sites));
  },
};

export const outpost = (dir: string): Contestant => ({
  name: 'Outpost',
  service: 'outpost',
  store: 'rabbitmq',
  async start(parts, receiverUrl) {
    const port = await freePort();
    const env = {
      API_PORT: String(port),
      API_KEY: 'contest',
      API_JWT_SECRET: 'contest',
      AES_ENCRYPTION_SECRET: 'contest-contest-contest-contest-',
      REDIS_PORT: String(await parts.redis()),
      RABBITMQ_SERVER_URL: `amqp://guest:guest@127.0.0.1:${await parts.rabbitmq()}`,
      POSTGRES_URL: `postgres://contest@127.0.0.1:${await parts.postgres()}/postgres?sslmode=disable`,
      TOPICS: 'asset-update',
      DISABLE_TELEMETRY: 'true',
      DESTINATIONS_WEBHOOK_MODE: 'standard',
      RETRY_SCHEDULE: retryScheduleSeconds.join(','),
      // The default is one at a time.
      DELIVERY_MAX_CONCURRENCY: '64',
      LOG_MAX_CONCURRENCY: '64',
    };
    const [migrate, server] = [join(dir, 'bin/outpost'), join(dir, 'bin/outpost-server')];
    execFileSync(migrate, ['migrate', 'apply', '--yes'], { env: { ...process.env, ...env }, stdio: 'pipe' });
    const baseUrl = `http://127.0.0.1:${port}`;
    await parts.program('outpost', [server], () => answersOk(`${baseUrl}/healthz`), env);
    const headers = { ...json, authorization: 'Bearer contest' };
    for (let site = 0; site < sites; site++) {
      const tenant = `${baseUrl}/api/v1/tenants/site-${site}`;
      await call(tenant, { method: 'PUT', headers, body: '{}' });
      const config = { url: `${receiverUrl}/site-${site}` };
      const body = JSON.stringify({ type: 'webhook', topics: '*', config });
      await call(`${tenant}/destinations`, { headers, body });
    }
    const request = one('/api/v1/publish', headers, ({ id, site }) => {
      return { id, tenant_id: `site-${site}`, topic: 'asset-update', data: notification(id) };
    });
    return { baseUrls: [baseUrl], paths, request };
  },
});

export const webhookx = (dir: string): Contestant => ({
  name: 'WebhookX',
  service: 'webhookx',
  store: 'postgres',
  async start(parts, receiverUrl) {
    const redis = String(await parts.redis());
    const [proxy, admin, status] = [await freePort(), await freePort(), await freePort()];
    const env = {
      WEBHOOKX_DATABASE_PORT: String(await parts.postgres()),
      WEBHOOKX_DATABASE_USERNAME: 'contest',
      WEBHOOKX_DATABASE_DATABASE: 'postgres',
      WEBHOOKX_REDIS_PORT: redis,
      WEBHOOKX_PROXY_QUEUE_REDIS_PORT: redis,
      WEBHOOKX_PROXY_LISTEN: `127.0.0.1:${proxy}`,
      WEBHOOKX_ADMIN_LISTEN: `127.0.0.1:${admin}`,
      WEBHOOKX_STATUS_LISTEN: `127.0.0.1:${status}`,
      // The receiver is on the loopback interface.
      WEBHOOKX_WORKER_DELIVERER_ACL_DENY: '@linklocal',
      WEBHOOKX_ANONYMOUS_REPORTS: 'false',
    };
    const program = join(dir, 'webhookx');
    execFileSync(program, ['db', 'up'], { env: { ...process.env, ...env }, stdio: 'pipe' });
    await parts.program('webhookx', [program, 'start'], () => answersOk(`http://127.0.0.1:${admin}`), env);
    const workspace = `http://127.0.0.1:${admin}/workspaces/default`;
    const create = (kind: string, body: object) =>
      call(`${workspace}/${kind}`, { headers: json, body: JSON.stringify(body) });
    await create('sources', { config: { http: { path: '/', methods: ['POST'] } } });
    for (let site = 0; site < sites; site++) {
      const endpoint = await create('endpoints', {
        request: { url: `${receiverUrl}/site-${site}`, method: 'POST' },
        retry: { strategy: 'fixed', config: { attempts: [0, ...retryScheduleSeconds] } },
        events: [`site-${site}`],
      });
      const { id } = endpoint as { id: string };
      await create('plugins', { name: 'webhookx-signature', endpoint_id: id, config: {} });
    }
    const baseUrl = `http://127.0.0.1:${proxy}`;
    // It learns of a new source within a second.
    while ((await fetch(baseUrl, { method: 'POST', body: '{}' })).status === 404) await sleep(100);
    const request = one('/', json, ({ id, site }) => {
      return { event_type: `site-${site}`, data: notification(id), unique_id: id };
    });
    return { baseUrls: [baseUrl], paths, request };
  },
});

/** The requests of those who take one event at a time. */
const one =
  (path: string, headers: Record<string, string>, bodyOf: (event: Event) => object): Running['request'] =>
  ([event]) => ({ path, headers, body: JSON.stringify(event && bodyOf(event)) });
