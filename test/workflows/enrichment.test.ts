import assert from 'node:assert/strict';
import { createActivities } from '../../activities/index.js';
import { deliveryOf, readConfig } from '../../src/config.js';
import type { Outcome, Waiting } from '../../src/delivery/outcome.js';
import type { ClaimedEvent } from '../../src/redis/owed/claim.js';
import type { ActivityDeps } from '../../src/upkeep/deps.js';
import { startTimeSkipping, type TimeSkipping } from './timeSkipping.js';

const second = 1000;
const minute = 60 * second;

/** Its own activities, on an engine that fails by the default schedule; Temporal's clock skips. */
describe('Enrichment retries within minutes', () => {
  let skipping: TimeSkipping;
  before(async () => {
    skipping = await startTimeSkipping();
  });

  const { retryScheduleMs: scheduleMs } = deliveryOf(readConfig({}));
  const event: ClaimedEvent = {
    ...{ clientToken: 'SITE0042', platformId: 'vid-9', eventId: 'an-1', notificationId: 'msg_a' },
    ...{ segments: ['iab:17'], priority: 'live', acceptedAt: 1, claim: 1 },
  };

  /** @param succeedsAt the attempt that is answered 2xx */
  async function run(succeedsAt: number) {
    const attempts: number[] = [];
    const woken: { clientToken: string; inMs: number }[] = [];
    let dueAt = 0;
    const failed: Waiting = { state: 'waiting', reason: 'retry', inMs: 0, failures: 0, error: 'http_status' };
    const activities = createActivities({
      engine: {
        async join(): Promise<Outcome> {
          const now = await skipping.now();
          const failures = attempts.length;
          // As take does where a call comes before its time.
          if (now < dueAt) return { state: 'waiting', reason: 'not_due', inMs: dueAt - now, failures };
          attempts.push(now);
          if (attempts.length === succeedsAt) return { state: 'delivered', status: 200, milliseconds: 3 };
          const inMs = scheduleMs[failures] ?? 0;
          dueAt = now + inMs;
          return { ...failed, inMs, failures: attempts.length, status: 503, target: 'example.com/hook' };
        },
        forget() {},
      },
      catchUps: {
        async wake(clientToken: string, inMs: number) {
          woken.push({ clientToken, inMs });
        },
      },
    } as unknown as ActivityDeps);
    const result = await skipping.withWorkers(activities, (taskQueue) =>
      skipping.env.client.workflow.execute('enrichment', {
        workflowId: `enrichment/${taskQueue}`,
        taskQueue,
        args: [{ events: [event] }],
      }),
    );
    const waits = attempts.slice(1).map((at, i) => at - (attempts[i] as number));
    return { result, waits, woken };
  }

  function assertWaits(waits: number[], wanted: number[]): void {
    assert.equal(waits.length, wanted.length, `waits of ${waits.join(', ')} ms`);
    waits.forEach((ms, i) => {
      const atLeast = wanted[i] as number;
      assert.ok(ms >= atLeast && ms < atLeast + 20 * second, `waits of ${waits.join(', ')} ms`);
    });
  }

  it('hands the rest over to catch-up after three retries, 5 s, 30 s and 2 min apart', async () => {
    const { result, waits, woken } = await run(5);
    assertWaits(waits, scheduleMs.slice(0, 3));
    assert.deepEqual(result, {
      ...{ state: 'waiting', status: 503, reason: 'retry', error: 'http_status', failed_attempts: 4 },
    });
    assert.deepEqual(woken, [{ clientToken: 'SITE0042', inMs: 10 * minute }]);
  });

  it('hands nothing over when the third retry delivers', async () => {
    const { result, waits, woken } = await run(4);
    assertWaits(waits, scheduleMs.slice(0, 3));
    assert.deepEqual(result, { state: 'delivered', status: 200, milliseconds: 3 });
    assert.deepEqual(woken, []);
  });

  it('needs one local activity and no time when the first attempt delivers', async () => {
    const { result, waits, woken } = await run(1);
    assert.deepEqual([result.state, waits, woken], ['delivered', [], []]);
  });
});
