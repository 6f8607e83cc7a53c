/** Reads all that Redis and Temporal have, and names what does not agree: an oracle beside publishers and receivers. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, Connection, WorkflowNotFoundError } from '@temporalio/client';
import type { ChainableCommander } from 'ioredis';
import type { EnrichmentInput } from '../../src/delivery/outcome.js';
import type { Db } from '../../src/redis/connection/db.js';
import { indexedClients } from '../../src/redis/owed/owedClients.js';
import { clientTokens } from '../../src/redis/records/clients.js';

export interface Walk {
  db: Db;
  temporal: Client;
  taskQueue: string;
}

/** Walks until nothing is found, three times at most: something may change while it is read. @returns `client token, id, what is wrong` */
export async function walk(over: Walk): Promise<string[]> {
  for (let tries = 1; ; tries++) {
    const found = await walkOnce(over);
    if (found.length === 0 || tries === 3) return found.sort();
    await sleep(1000);
  }
}

async function walkOnce({ db, temporal, taskQueue }: Walk): Promise<string[]> {
  const found: string[] = [];
  for await (const page of clientTokens(db)) {
    for (const clientToken of page) await walkClient(db, clientToken, found);
  }
  for await (const workflowId of enrichmentIds(temporal, taskQueue)) {
    for (const { clientToken, notificationId } of await eventsOf(temporal, workflowId)) {
      const exists = await db.redis.exists(db.client(clientToken).notification(notificationId));
      if (exists === 0) found.push(`${clientToken} ${notificationId} is in a workflow, not in Redis`);
    }
  }
  return found;
}

/** Returns the ids of the workflows `enrichment`, newest first. Temporal lists a run some time after it began. */
export async function* enrichmentIds(temporal: Client, taskQueue: string): AsyncGenerator<string> {
  const query = `WorkflowType = 'enrichment' AND TaskQueue = '${taskQueue}'`;
  for await (const { workflowId } of temporal.workflow.list({ query })) yield workflowId;
}

/** Reads the events in a workflow's input; none if Temporal no longer has it. */
async function eventsOf(temporal: Client, workflowId: string): Promise<EnrichmentInput['events']> {
  try {
    const { events } = await temporal.workflow.getHandle(workflowId).fetchHistory();
    const [input] = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
    if (input == null) return [];
    return temporal.options.loadedDataConverter.payloadConverter.fromPayload<EnrichmentInput>(input).events;
  } catch (err) {
    if (err instanceof WorkflowNotFoundError) return [];
    throw err;
  }
}

/** Returns whether the sweep knows that this client may be owed something. */
export async function isIndexed(db: Db, clientToken: string): Promise<boolean> {
  for await (const page of indexedClients(db, assert.ifError)) if (page.includes(clientToken)) return true;
  return false;
}

async function walkClient(db: Db, clientToken: string, found: string[]): Promise<void> {
  const blame = (what: string, is: string) => found.push(`${clientToken} ${what} ${is}`);
  const keys = db.client(clientToken);
  const [listed, waiting, flight, since, live, backfill] = (await answersOf(
    db.redis
      .multi()
      .zrange(keys.notifications, '0', '-1')
      .hgetall(keys.owed)
      .hgetall(keys.flight)
      .zrange(keys.owedSince, '0', '-1')
      .zrange(keys.dueLive, '0', '-1')
      .zrange(keys.dueBackfill, '0', '-1'),
  )) as [string[], Record<string, string>, Record<string, string>, string[], string[], string[]];
  const due = [...live, ...backfill];
  for (const asset of Object.keys(waiting)) {
    if (!since.includes(asset)) blame(asset, 'is owed and has no "owed since"');
    if (due.filter((one) => one === asset).length !== 1) blame(asset, 'is owed and has no due time, or two');
    if (asset in flight) blame(asset, 'waits and is in flight');
  }
  for (const asset of new Set([...since, ...due])) {
    if (!(asset in waiting)) blame(asset, 'is due and not owed');
  }
  const owed = new Map(Object.entries(waiting));
  for (const [asset, packed] of Object.entries(flight)) {
    // The id of the attempt, and what waits for its end (redis/scripts/notification.lua).
    const [, , , , id = '', newer = id] = packed.split(' ');
    if (newer !== '!') owed.set(asset, newer);
  }
  if (owed.size > 0 && !(await isIndexed(db, clientToken)))
    blame('', 'is owed something, unknown to the sweep');

  const ids = [...new Set([...listed, ...owed.values()])];
  const records = db.redis.multi();
  for (const id of ids) records.hmget(keys.notification(id), 'asset', 'state');
  const answers = (await answersOf(records)) as [string | null, string | null][];
  for (const [i, [asset, state]] of answers.entries()) {
    const id = ids[i] ?? '';
    if (asset === null) {
      blame(id, 'has no record');
      continue;
    }
    const isOwed = owed.get(asset) === id;
    if (isOwed !== (state === null)) blame(id, isOwed ? `is owed and ${state}` : 'waits and is not owed');
  }
}

async function answersOf(commands: ChainableCommander): Promise<unknown[]> {
  const answers = (await commands.exec()) ?? [];
  return answers.map(([err, value]) => {
    if (err) throw err;
    return value;
  });
}

export async function withTemporal<T>(
  { system }: { system: { temporalAddress: string } },
  look: (temporal: Client) => Promise<T>,
): Promise<T> {
  const connection = await Connection.connect({ address: system.temporalAddress });
  try {
    return await look(new Client({ connection }));
  } finally {
    await connection.close();
  }
}
