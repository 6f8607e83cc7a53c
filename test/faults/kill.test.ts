/**
 * Breaks every part of the running service at random moments under load, again and again, and accounts for every
 * acknowledged event at the receiver, for every token and for every registration.
 */

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { assertKept, type FaultRun, startFaultRun } from './faultRun.js';
import { drawFaults, type Fault, kills, killsTogether } from './faults.js';
import { form } from './form.js';
import { type Row, report } from './report.js';
import { walk, withTemporal } from './walk.js';

describe(`${form.kills} faults at random moments under load`, function () {
  this.timeout(form.kills * 60_000 + 300_000);
  let run: FaultRun;

  before(async () => {
    run = await startFaultRun();
  });
  after(() => run?.stop());

  it('recovers from each by itself', async () => {
    await injectAll(run, kills, form.kills);
  });

  it('loses nothing acknowledged, gives no event two ids and repeats only what was in flight', async () => {
    await accountForAll(run, kills);
  });

  describe('the accounting itself', () => {
    const sum = (rows: readonly Row[], of: (row: Row) => number) =>
      rows.reduce((total, row) => total + of(row), 0);

    it('finds a planted duplicate', async () => {
      const before = await run.account(0);
      const [event] = run.publisher.acknowledged.filter((one) =>
        run.system.receiver.arrivals.has(one.notificationId),
      );
      assert.ok(event);
      await fetch(run.system.receiver.url, {
        method: 'POST',
        headers: { 'webhook-id': event.notificationId },
      });
      const account = await run.account(0);
      assert.ok(sum(account.rows, (row) => row.duplicated) > sum(before.rows, (row) => row.duplicated));
    });

    it('finds a planted event with two ids', async () => {
      const [event] = run.publisher.acknowledged;
      assert.ok(event);
      const second = await fetch(`${run.system.apiUrl}/enrichments`, {
        method: 'POST',
        headers: { authorization: `Bearer ${run.cast.platformToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          ...{ event_id: event.eventId, client_token: event.clientToken, platform_id: 'another' },
          segments: ['a'],
        }),
      });
      const { notification_id: id } = (await second.json()) as { notification_id: string };
      while (!run.system.receiver.arrivals.has(id)) await pause(20);
      const account = await run.account(0);
      assert.equal(account.withTwoIds.length, 1);
      assert.match(account.withTwoIds[0] ?? '', new RegExp(event.eventId));
      run.system.receiver.arrivals.delete(id);
    });

    it('finds an event that every record calls delivered, but that the receiver never got', async () => {
      const last = run.publisher.acknowledged.findLast((one) =>
        run.system.receiver.arrivals.has(one.notificationId),
      );
      assert.ok(last);
      run.system.receiver.arrivals.delete(last.notificationId);
      const account = await run.account(0);
      assert.ok(account.lost.length >= 1);
      assert.match(account.lost[0] ?? '', /^lost: not received/);
    });

    it('finds a planted event, token and registration that do not exist', async () => {
      const before = await run.account(0);
      const [event] = run.publisher.acknowledged;
      assert.ok(event);
      run.publisher.acknowledged.push({ ...event, notificationId: randomUUID(), eventId: randomUUID() });
      run.minter.tokens.push({ value: 'x'.repeat(64), fault: 0 });
      run.registrar.registrations.push({ clientToken: 'nobody', urls: ['http://127.0.0.1:9/'], fault: 0 });
      const account = await run.account(0);
      assert.equal(account.lost.length, before.lost.length + 3);
      assert.equal(
        sum(account.rows, (row) => row.lost),
        sum(before.rows, (row) => row.lost) + 3,
      );
    });
  });
});

/**
 * Where API and worker are one process, attempts begin before their workflow does, and many events share one.
 */
describe(`${form.killsTogether} faults at random moments under load, API and worker in one process`, function () {
  this.timeout(form.killsTogether * 60_000 + 300_000);
  let run: FaultRun;

  before(async () => {
    run = await startFaultRun({
      together: true,
      ...{ clients, assetsPerClient: 500, publishers: 96, pauseMs: 60 },
    });
  });
  after(() => run?.stop());

  it('recovers from each by itself', async () => {
    await injectAll(run, killsTogether, form.killsTogether);
    assert.ok(await withTemporal(run, hasGroupsOf(32)), 'events shared workflows');
  });

  it('loses nothing acknowledged, gives no event two ids and repeats only what was in flight', async () => {
    await accountForAll(run, killsTogether, clients);
  });

  const clients = 20;
});

async function injectAll(run: FaultRun, kinds: readonly Fault[], times: number): Promise<void> {
  for (const fault of drawFaults(kinds, times)) {
    await pause(200 + Math.random() * 800);
    await run.inject(fault);
    await run.accountSoFar();
  }
  assert.deepEqual(run.system.brokenOff, []);
}

async function accountForAll(run: FaultRun, kinds: readonly Fault[], clients?: number): Promise<void> {
  const account = await run.account();
  const place = ({ fault }: Row) => kinds.findIndex(({ name }) => name === fault);
  report(account.rows.sort((a, b) => place(a) - place(b)));
  assertKept(account, clients);
  const { found } = await withTemporal(run, (temporal) =>
    walk({ db: run.db, temporal, taskQueue: 'notifications' }),
  );
  assert.deepEqual(found, []);
}

const hasGroupsOf =
  (events: number) =>
  async ({ workflow }: Client): Promise<boolean> => {
    for await (const { workflowId } of workflow.list({ query: 'WorkflowType = "enrichment"' })) {
      const { staticSummary } = await workflow.getHandle(workflowId).describe();
      if (Number.parseInt((await staticSummary()) ?? '', 10) >= events) return true;
    }
    return false;
  };
