import assert from 'node:assert/strict';
import type { Swept } from '../../src/upkeep/sweep.js';
import { startTimeSkipping, type TimeSkipping } from './timeSkipping.js';

describe('Sweep', () => {
  let skipping: TimeSkipping;
  before(async () => {
    skipping = await startTimeSkipping();
  });

  const swept: Swept = { looked: 2, woken: 1, replaced: 0 };

  async function sweep(taskQueue: string): Promise<void> {
    const workflowId = `sweep/${taskQueue}`;
    await skipping.env.client.workflow.execute('sweep', { workflowId, taskQueue, args: [] });
  }

  it('is tried three times in all while Redis is unavailable', async () => {
    let tries = 0;
    const sweepOwedClients = async () => {
      if (++tries < 3) throw new Error('Redis is away');
      return swept;
    };
    await skipping.withWorkers({ sweepOwedClients }, sweep);
    assert.equal(tries, 3);
  });
});
