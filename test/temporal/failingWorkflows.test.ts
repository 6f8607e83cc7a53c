import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createLogger } from '../../src/log.js';
import { watchFailingWorkflows } from '../../src/temporal/failingWorkflows.js';
import { useHarness } from '../service.js';

describe('Workflows whose tasks fail', () => {
  const { h } = useHarness();

  it('are forgotten once they are gone from Temporal, as a deleted one is: nothing else would end them', async () => {
    const { temporal } = h;
    async function* list() {
      yield { workflowId: `${h.taskQueue}/deleted` };
    }
    const workflow = Object.assign(Object.create(temporal.workflow), { list });
    const client = Object.assign(Object.create(temporal), { workflow });
    const failing = watchFailingWorkflows({
      temporal: client,
      log: createLogger('silent', 'test'),
      minutes: { count: () => undefined },
    });
    await failing.note(randomUUID(), 'unknown patch');
    assert.equal(failing.count(), 1);
    await failing.look();
    assert.equal(failing.count(), 0);
  });
});
