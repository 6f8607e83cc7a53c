import assert from 'node:assert/strict';
import { ApplicationFailure } from '@temporalio/common';
import type { Outcome, Report } from '../../src/delivery/outcome.js';
import type { ClaimedEvent } from '../../src/redis/owed/claim.js';
import { startTimeSkipping, type TimeSkipping } from './timeSkipping.js';

const second = 1000;

/** Its activities are made up; Temporal's clock skips. */
describe('Enrichment retries within minutes', () => {
  let skipping: TimeSkipping;
  before(async () => {
    skipping = await startTimeSkipping();
  });

  const waitsMs = [5 * second, 30 * second, 120 * second];
  const event: ClaimedEvent = {
    ...{ clientToken: 'SITE0042', platformId: 'vid-9', eventId: 'an-1', notificationId: 'msg_a' },
    ...{ segments: ['iab:17'], priority: 'live', acceptedAt: 1, claim: 1 },
  };
  const delivered: Report = { delivered: 1, status: 200, milliseconds: 3, rest: [] };

  /** @param succeedsAt the attempt that is answered 2xx */
  async function run(succeedsAt: number) {
    const attempts: number[] = [];
    async function attempt(): Promise<Report> {
      attempts.push(await skipping.now());
      const failures = attempts.length;
      if (failures === succeedsAt) return delivered;
      const outcome: Outcome = {
        ...{ state: 'waiting', reason: 'retry', at: 0, failures },
        ...{ status: 503, error: 'http_status' },
      };
      return { delivered: 0, rest: [{ index: 0, outcome }] };
    }
    async function awaitDelivery(): Promise<Report> {
      const nextAt = (attempts.at(-1) ?? 0) + (waitsMs[attempts.length - 1] ?? 0);
      const inMs = nextAt - (await skipping.now());
      const report = inMs > 0 ? undefined : await attempt();
      if (report !== undefined && (report.delivered === 1 || attempts.length > waitsMs.length)) return report;
      const nextRetryDelay = inMs > 0 ? inMs : (waitsMs[attempts.length - 1] ?? 0);
      throw ApplicationFailure.create({ type: 'http_status', nextRetryDelay });
    }
    const result = await skipping.withWorkers({ deliver: attempt, awaitDelivery }, (taskQueue) =>
      skipping.env.client.workflow.execute('enrichment', {
        workflowId: `enrichment/${taskQueue}`,
        taskQueue,
        args: [{ events: [event] }],
      }),
    );
    const waits = attempts.slice(1).map((at, i) => at - (attempts[i] as number));
    return { result, waits };
  }

  function assertWaits(waits: number[], wanted: number[]): void {
    assert.equal(waits.length, wanted.length, `waits of ${waits.join(', ')} ms`);
    waits.forEach((ms, i) => {
      const atLeast = wanted[i] as number;
      assert.ok(ms >= atLeast && ms < atLeast + 20 * second, `waits of ${waits.join(', ')} ms`);
    });
  }

  it('leaves the rest to catch-up after three retries, 5 s, 30 s and 2 min apart', async () => {
    const { result, waits } = await run(5);
    assertWaits(waits, waitsMs);
    const { handed_to, ...outcome } = result;
    assert.match(handed_to, /\/catch-up\/SITE0042$/);
    assert.deepEqual(outcome, {
      ...{ state: 'waiting', status: 503, reason: 'retry', error: 'http_status', failed_attempts: 4 },
    });
  });

  it('ends with the third retry if it delivers', async () => {
    const { result, waits } = await run(4);
    assertWaits(waits, waitsMs);
    assert.deepEqual(result, { state: 'delivered', status: 200, milliseconds: 3 });
  });

  it('needs one local activity and no time when the first attempt delivers', async () => {
    const { result, waits } = await run(1);
    assert.deepEqual([result.state, waits], ['delivered', []]);
  });
});
