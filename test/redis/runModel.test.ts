/**
 * Runs in any interleaving of claims, attempts, pauses and cancellations: an asset is owed while it has an event that was not
 * notified and whose run is not cancelled, and counts, sets and records agree.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { getNotification } from '../../src/redis/notifications/notifications.js';
import type { Taken } from '../../src/redis/owed/take.js';
import { announceRuns } from '../../src/redis/runs/announce.js';
import { applyToClient, changeRun } from '../../src/redis/runs/change.js';
import { holdRun } from '../../src/redis/runs/hold.js';
import { getRun, sumRun } from '../../src/redis/runs/runs.js';
import {
  closeDeliveryClients,
  type DeliveryClient,
  leaseMs,
  newDeliveryClient,
  second,
  whatIsOwed,
} from './deliveryClient.js';

const assets = ['a', 'b'];
const runs = ['R', 'S'];

interface Told {
  asset: string;
  id: string;
  runId?: string;
  isTold: boolean;
}

interface Attempt {
  asset: string;
  id: string;
  taken: Taken;
  /** What had been claimed of the asset when it began. */
  tells: Told[];
}

class World {
  events: Told[] = [];
  attempts: Attempt[] = [];
  cancelled = new Set<string>();

  constructor(readonly client: DeliveryClient) {}

  async claim(asset: string, runId: string | undefined): Promise<void> {
    const event = this.client.event({ platformId: asset, ...(runId !== undefined && { runId }) });
    await announceRuns(this.client.db, this.client.clientToken, [event]);
    const { kind } = await this.client.claim(event);
    if (runId !== undefined && this.cancelled.has(runId)) return assert.equal(kind, 'run_cancelled');
    assert.equal(kind, 'claimed');
    this.events.push({
      asset,
      id: event.notificationId,
      isTold: false,
      ...(runId !== undefined && { runId }),
    });
  }

  async take(asset: string): Promise<void> {
    const { waiting } = await whatIsOwed(this.client);
    const id = waiting[asset];
    if (id === undefined) return;
    const taken = await this.client.take({ platformId: asset, notificationId: id });
    if (taken.kind !== 'taken') return;
    const tells = this.events.filter((event) => event.asset === asset);
    this.attempts.push({ asset, id, taken, tells });
  }

  async settle(ok: boolean): Promise<void> {
    const attempt = this.attempts.shift();
    if (attempt === undefined) return;
    const { asset: platformId, id: notificationId, taken, tells } = attempt;
    await this.client.settle({ platformId, notificationId }, taken, { ok });
    if (ok) for (const one of tells) one.isTold = true;
  }

  async change(runId: string, to: 'active' | 'paused' | 'cancelled'): Promise<void> {
    const { db, clientToken } = this.client;
    if ((await changeRun(db, runId, to)).outcome !== 'changed') return;
    if (to === 'cancelled') this.cancelled.add(runId);
    const run = await getRun(db, runId);
    assert.ok(run);
    await holdRun(db, clientToken, run);
    await applyToClient(db, clientToken, runId, () => undefined);
  }

  async check(): Promise<void> {
    const { db, clientToken } = this.client;
    const { waiting, flight } = await whatIsOwed(this.client);
    const owed = new Set(Object.values(waiting));
    for (const { id, newer } of Object.values(flight)) owed.add(newer ?? id);
    owed.delete('!');
    for (const asset of assets) {
      const isOwed = waiting[asset] !== undefined || flight[asset] !== undefined;
      const untold = this.events.some(
        ({ asset: of, isTold, runId }) =>
          of === asset && !isTold && !(runId !== undefined && this.cancelled.has(runId)),
      );
      if (untold) assert.ok(isOwed, `${asset} was not notified of an event, and is not owed`);
    }
    const states = new Map<string, string>();
    for (const { id } of this.events) {
      const state = (await getNotification(db, clientToken, id))?.state ?? 'none';
      states.set(id, state);
      assert.equal(owed.has(id), state === 'waiting', `${id} is ${state}`);
    }
    for (const runId of runs) {
      const own = this.events.filter((event) => event.runId === runId).map(({ id }) => id);
      const { counts } = await sumRun(db, runId);
      const count = (state: string) => own.filter((id) => states.get(id) === state).length;
      assert.deepEqual(counts, {
        ...{ accepted: own.length, none: 0, owed: count('waiting'), delivered: count('delivered') },
        ...{ superseded: count('superseded'), not_needed: 0, failed: 0, cancelled: count('cancelled') },
      });
      const set = await db.redis.smembers(db.client(clientToken).runOwed(runId));
      assert.deepEqual(set.sort(), own.filter((id) => states.get(id) === 'waiting').sort());
    }
  }

  /** Nothing of a cancelled run stays owed once every attempt has ended. */
  async end(): Promise<void> {
    while (this.attempts.length > 0) await this.settle(false);
    this.client.pass(leaseMs + second);
    for (const runId of this.cancelled) {
      await applyToClient(this.client.db, this.client.clientToken, runId, () => undefined);
      assert.equal((await sumRun(this.client.db, runId)).counts.owed, 0);
    }
    await this.check();
  }
}

describe('Analysis runs in any interleaving', function () {
  this.timeout(120_000);
  after(closeDeliveryClients);

  it('lose no notification of another run, and count each notification once', async () => {
    const asset = fc.constantFrom(...assets);
    const run = fc.constantFrom(...runs);
    const step = fc.oneof(
      { weight: 5, arbitrary: fc.tuple(fc.constant('claim'), asset, fc.option(run, { nil: undefined })) },
      { weight: 3, arbitrary: fc.tuple(fc.constant('take'), asset) },
      { weight: 3, arbitrary: fc.tuple(fc.constant('settle'), fc.boolean()) },
      { weight: 2, arbitrary: fc.tuple(fc.constantFrom('paused', 'active'), run) },
      { weight: 1, arbitrary: fc.tuple(fc.constant('cancelled'), run) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 25 }), async (steps) => {
        const world = new World(await newDeliveryClient({ failingAfter: 1000 }));
        for (const [what, first, second] of steps as [string, string, string | undefined][]) {
          if (what === 'claim') await world.claim(first, second);
          else if (what === 'take') await world.take(first);
          else if (what === 'settle') await world.settle(Boolean(first));
          else await world.change(first, what as 'active');
          await world.check();
        }
        await world.end();
        world.client.db.redis.disconnect();
      }),
      { numRuns: Number(process.env.MODEL_RUNS ?? 60) },
    );
  });
});
