import assert from 'node:assert/strict';
import type { RedeliveryOutcome } from '../../activities/redelivery.js';
import { startTimeSkipping, type TimeSkipping } from './timeSkipping.js';

const second = 1000;
const minute = 60 * second;

describe('Redeliver', () => {
  let skipping: TimeSkipping;
  before(async () => {
    skipping = await startTimeSkipping();
  });

  const delivered: RedeliveryOutcome = { kind: 'ended', state: 'delivered', status: 200 };
  const owed = (reason: string, inMs: number): RedeliveryOutcome => ({
    ...{ kind: 'owed', reason, inMs },
    ...(reason === 'retry' && { status: 503, error: 'http_status' }),
  });

  /** Plays these answers; resolves with the waits between them and the state that the workflow is found by. */
  async function play(answers: RedeliveryOutcome[]) {
    const asked: number[] = [];
    const state = await skipping.withWorkers(
      {
        async attemptRedelivery() {
          const answer = answers[asked.length];
          asked.push(await skipping.now());
          if (answer === undefined) throw new Error('asked too often');
          return answer;
        },
      },
      async (taskQueue) => {
        const handle = await skipping.env.client.workflow.start('redeliver', {
          workflowId: `redeliver/${taskQueue}`,
          taskQueue,
          args: [{ clientToken: 'SITE0042', platformId: 'vid-9', notificationId: 'msg_a' }],
        });
        await handle.result();
        return (await handle.describe()).searchAttributes.NotificationState;
      },
    );
    return { state, waits: asked.slice(1).map((at, i) => at - (asked[i] as number)) };
  }

  function assertWaits(waits: number[], wanted: number[]): void {
    assert.equal(waits.length, wanted.length, `waits of ${waits.join(', ')} ms`);
    waits.forEach((ms, i) => {
      const atLeast = wanted[i] as number;
      assert.ok(ms >= atLeast && ms < atLeast + 20 * second, `waits of ${waits.join(', ')} ms`);
    });
  }

  it('has one attempt and three retries, then gives up', async () => {
    const retries = [5 * second, 30 * second, 2 * minute, 10 * minute].map((inMs) => owed('retry', inMs));
    const { state, waits } = await play(retries);
    assertWaits(waits, [5 * second, 30 * second, 2 * minute]);
    assert.deepEqual(state, ['waiting']);
  });

  it('waits for a failing endpoint, and is delivered when it is back', async () => {
    const refused = [owed('failing', 4 * minute), owed('failing', 4 * minute)];
    const { state, waits } = await play([...refused, owed('retry', 5 * second), delivered]);
    assertWaits(waits, [4 * minute, 4 * minute, 5 * second]);
    assert.deepEqual(state, ['delivered']);
  });

  it('gives up when nothing may be sent to the endpoint for ten minutes', async () => {
    const { state, waits } = await play(Array.from({ length: 3 }, () => owed('failing', 4 * minute)));
    assertWaits(waits, [4 * minute, 4 * minute]);
    assert.deepEqual(state, ['waiting']);
  });
});
