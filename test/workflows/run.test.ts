import assert from 'node:assert/strict';
import type { Followed } from '../../src/upkeep/runs.js';
import { startTimeSkipping, type TimeSkipping } from './timeSkipping.js';

describe('Run', () => {
  let skipping: TimeSkipping;
  before(async () => {
    skipping = await startTimeSkipping();
  });

  const done: Followed = { state: 'cancelled', cancelled: 3, due: 0, forgotten: 0, left: 0 };

  /** Plays these answers. @param during called in the activity, with its number from 0 */
  async function play(answers: Followed[], during: (n: number, signal: () => Promise<void>) => unknown) {
    let asked = 0;
    await skipping.withWorkers(
      {
        async followRun() {
          const answer = answers[asked];
          const { workflow } = skipping.env.client;
          const handle = workflow.getHandle(`run/${current}`);
          await during(asked++, () => handle.signal('changed'));
          if (answer === undefined) throw new Error('asked too often');
          return answer;
        },
      },
      async (taskQueue) => {
        current = taskQueue;
        const options = { workflowId: `run/${taskQueue}`, taskQueue, args: [{ runId: 'nightly' }] };
        await (await skipping.env.client.workflow.start('run', options)).result();
      },
    );
    return asked;
  }
  let current = '';

  it('ends once all clients have followed', async () => {
    assert.equal(await play([done], () => undefined), 1);
  });

  it('repeats until the attempts that were under way have ended', async () => {
    assert.equal(await play([{ ...done, left: 2 }, { ...done, left: 1 }, done], () => undefined), 3);
  });

  it('starts again if the state has changed meanwhile', async () => {
    const answers: Followed[] = [{ ...done, state: 'paused' }, done];
    assert.equal(await play(answers, (n, signal) => (n === 0 ? signal() : undefined)), 2);
  });

  it('leaves attempts that do not end to the sweep', async () => {
    const answers = Array.from({ length: 60 }, () => ({ ...done, left: 1 }));
    assert.equal(await play(answers, () => undefined), 60);
  });
});
