import assert from 'node:assert/strict';
import { Worker } from '@temporalio/worker';
import { startWithWorker } from '../service.js';

describe('A worker of Temporal’s library', () => {
  it('breaks off no step of a workflow that outlasts its 5 s, since that would end the process', async () => {
    const made: Worker[] = [];
    const { create } = Worker;
    Worker.create = async (options) => {
      const worker = await create.call(Worker, options);
      made.push(worker);
      return worker;
    };
    try {
      await (await startWithWorker()).close();
    } finally {
      Worker.create = create;
    }
    assert.deepEqual(
      made.map(({ options }) => options.isolateExecutionTimeoutMs),
      [3_600_000, 3_600_000],
    );
  });
});
