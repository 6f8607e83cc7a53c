/**
 * A process: the floor for events, the least that a design of the service pays. Koa reads JSON, Redis takes a durable
 * write of two commands for each event of the request, the answer is 202; then one POST by undici to the receiver for each event, and
 * another write of two commands.
 * There is no token, signature, lease, log, metric, retry or Temporal.
 */
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ChainableCommander, Redis } from 'ioredis';
import Koa from 'koa';
import { Pool } from 'undici';

interface FloorEvent {
  event_id: string;
  client_token: string;
  platform_id: string;
}

const redis = new Redis(process.env.REDIS_URL ?? '');
// As many as callers in the load with most of them: a batch opens no more.
const receiver = new Pool(process.env.RECEIVER_URL ?? '', { connections: 256 });
const recordForSeconds = 3600;

const app = new Koa();
app.use(async (ctx) => {
  const given = (await readJson(ctx.req)) as FloorEvent | { events: FloorEvent[] };
  const taken = ('events' in given ? given.events : [given]).map((event) => ({ event, id: randomUUID() }));
  const commands = redis.pipeline();
  for (const { event, id } of taken)
    commands
      .hset(owedKey(event), event.platform_id, id)
      .set(recordKey(id), JSON.stringify(event), 'EX', recordForSeconds);
  await write(commands);
  const results = taken.map(({ event, id }) => {
    return { event_id: event.event_id, notification: 'queued', notification_id: id };
  });
  ctx.status = 202;
  ctx.body = 'events' in given ? { results } : results[0];
  for (const { event, id } of taken)
    deliver(event, id).catch((err) => console.error('floor: not delivered:', err));
});

async function deliver(event: FloorEvent, id: string): Promise<void> {
  const { statusCode, body } = await receiver.request({
    path: `/${event.client_token}`,
    method: 'POST',
    headers: { 'content-type': 'application/json', 'webhook-id': id },
    body: JSON.stringify({ event: 'asset-update', platform_id: event.platform_id }),
  });
  await body.dump();
  await write(
    redis
      .pipeline()
      .hdel(owedKey(event), event.platform_id)
      .set(recordKey(id), JSON.stringify({ ...event, status: statusCode }), 'EX', recordForSeconds),
  );
}

async function readJson(req: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk);
  return JSON.parse(Buffer.concat(chunks).toString());
}

async function write(commands: ChainableCommander): Promise<void> {
  for (const [err] of (await commands.exec()) ?? []) if (err) throw err;
}

const owedKey = (event: FloorEvent) => `floor:owed:${event.client_token}`;
const recordKey = (id: string) => `floor:notification:${id}`;

const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ kind: 'ready', port: (server.address() as AddressInfo).port });
});
process.on('disconnect', () => process.exit());
// An orderly end, because Node writes a CPU profile only then.
process.on('SIGTERM', () => process.exit());
