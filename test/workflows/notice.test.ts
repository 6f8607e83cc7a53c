import assert from 'node:assert/strict';
import type { Notice } from '../../src/notices/notice.js';
import type { Sent, SoFar } from '../../src/notices/send.js';
import { startTimeSkipping, type TimeSkipping } from './timeSkipping.js';

const second = 1000;
const hour = 3600 * second;

describe('Notice', () => {
  let skipping: TimeSkipping;
  before(async () => {
    skipping = await startTimeSkipping();
  });

  const told: Notice = {
    ...{ id: 'ntc_a', to: 'account', kind: 'endpoint.failing', accountId: 'acc_a', clientToken: 'SITE0042' },
    ...{ at: 0, since: 0, reason: '5 attempts failed in a row', attemptsFailed: 5, owed: 12 },
  };
  const waiting = (inMs: number): Sent => ({ state: 'waiting', inMs, why: 'http_status 503', status: 503 });

  /** Plays these answers; resolves with what each attempt was told, the waits between them, and the end. */
  async function play(answers: Sent[]) {
    const asked: { at: number; soFar: SoFar }[] = [];
    const end = await skipping.withWorkers(
      {
        async sendNotice(_: Notice, soFar: SoFar) {
          const answer = answers[asked.length];
          asked.push({ at: await skipping.now(), soFar });
          if (answer === undefined) throw new Error('asked too often');
          return answer;
        },
      },
      async (taskQueue) => {
        const handle = await skipping.env.client.workflow.start('notice', {
          ...{ workflowId: `notice/${taskQueue}`, taskQueue, args: [told] },
        });
        const result = (await handle.result()) as unknown;
        const { memo, searchAttributes } = await handle.describe();
        return { result, memo, state: searchAttributes.NotificationState };
      },
    );
    const waits = asked.slice(1).map(({ at }, i) => at - (asked[i]?.at ?? 0));
    return { ...end, waits, soFar: asked.map((one) => one.soFar) };
  }

  it('waits for the time that each attempt gives, and counts the attempts', async () => {
    const delivered: Sent = { state: 'delivered', why: 'answered 2xx', status: 204 };
    const { result, memo, state, waits, soFar } = await play([
      waiting(5 * second),
      waiting(4 * hour),
      delivered,
    ]);
    assert.deepEqual(result, { ...delivered, tries: 3 });
    assert.deepEqual(state, ['delivered']);
    assert.deepEqual(memo, { state: 'delivered: answered 2xx', tries: 3 });
    assert.equal(waits.length, 2);
    for (const [i, wanted] of [5 * second, 4 * hour].entries()) {
      const ms = waits[i] as number;
      assert.ok(ms >= wanted && ms < wanted + 20 * second, `waits of ${waits.join(', ')} ms`);
    }
    assert.deepEqual(
      soFar.map(({ tries }) => tries),
      [0, 1, 2],
    );
    assert.equal(new Set(soFar.map(({ startedAtMs }) => startedAtMs)).size, 1);
  });

  it('ends with the result of the attempt', async () => {
    const failed: Sent = { state: 'failed', why: 'timeout' };
    const { result, state } = await play([waiting(second), failed]);
    assert.deepEqual(result, { ...failed, tries: 2 });
    assert.deepEqual(state, ['failed']);
  });
});
