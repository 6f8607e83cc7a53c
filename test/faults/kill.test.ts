/**
 * Breaks every part of the running service at random moments under load, again and again, and accounts for every
 * acknowledged event at the receiver, for every token and for every registration.
 */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { openForSuite } from '../servers.js';
import { type Account, assertKept, type Row, startFaultRun } from './faultRun.js';
import { drawFaults, type Fault, kills, killsTogether } from './faults.js';
import { form } from './form.js';
import { walk, withTemporal } from './walk.js';

const runs: { options: Parameters<typeof startFaultRun>[0]; kinds: readonly Fault[]; times: number }[] = [
  { options: {}, kinds: kills, times: form.kills },
  {
    // Where API and worker are one process, attempts begin before their workflow does, and many events share one.
    options: { together: true, clients: 20, assetsPerClient: 500, publishers: 96, pauseMs: 60 },
    kinds: killsTogether,
    times: form.killsTogether,
  },
];
for (const { options = {}, kinds, times } of runs) {
  const { together, clients } = options;
  const where = together ? ', API and worker in one process' : '';
  describe(`${times} faults at random moments under load${where}`, function () {
    this.timeout(times * 60_000 + 300_000);
    const run = openForSuite(() => startFaultRun(options));

    it('recovers from each by itself', async () => {
      for (const fault of drawFaults(kinds, times)) {
        await pause(200 + Math.random() * 800);
        await run.inject(fault);
        await run.accountSoFar();
      }
      assert.deepEqual(run.system.brokenOff, []);
      if (together) assert.ok(await withTemporal(run, hasGroupsOf(32)), 'events shared workflows');
    });

    it('loses nothing acknowledged and repeats only what was in flight', async () => {
      const account = await run.account();
      const place = ({ fault }: Row) => kinds.findIndex(({ name }) => name === fault);
      console.table(account.rows.sort((a, b) => place(a) - place(b)));
      assertKept(account, clients);
      const wrong = await withTemporal(run, (temporal) =>
        walk({ db: run.db, temporal, taskQueue: 'notifications' }),
      );
      assert.deepEqual(wrong, []);
    });

    if (together) return;
    it('would find lost events, tokens and registrations, and repeated events', async () => {
      const { publisher, minter, registrar, system } = run;
      const before = await run.account(0);
      const { arrivals } = system.receiver;
      const arrived = publisher.acknowledged.filter(({ notificationId }) => arrivals.has(notificationId));
      const repeated = arrived[0];
      const lost = arrived.findLast((one) => arrivals.get(one.notificationId)?.length === 1);
      assert.ok(repeated !== undefined && lost !== undefined && repeated !== lost);
      const headers = { 'webhook-id': repeated.notificationId };
      await fetch(system.receiver.url, { method: 'POST', headers });
      arrivals.delete(lost.notificationId);
      minter.tokens.push({ value: 'x'.repeat(64), fault: 0 });
      registrar.registrations.push({ clientToken: 'nobody', urls: ['http://127.0.0.1:9/'], fault: 0 });
      const after = await run.account(0);
      assert.ok(after.lost.length >= before.lost.length + 3);
      const sum = ({ rows }: Account) => rows.reduce((total, row) => total + row.duplicated, 0);
      assert.equal(sum(after), sum(before) + 1);
    });
  });
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
