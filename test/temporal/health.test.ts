import assert from 'node:assert/strict';
import { createLogger } from '../../src/log.js';
import { TemporalHealth } from '../../src/temporal/health.js';

/** As the library writes them. */
const counters = (attempts: number, refused: number) => `
temporal_request_total{namespace="default",operation="RespondWorkflowTaskCompleted",service_name="temporal-core-sdk"} ${attempts}
temporal_request_failure_total{namespace="default",operation="RespondWorkflowTaskCompleted",service_name="temporal-core-sdk",status_code="INVALID_ARGUMENT"} ${refused}
`;

describe('what the counters of Temporal’s library say', () => {
  it('is no refusal where a signal came while a workflow ended: the task is done once more', () => {
    const health = new TemporalHealth(createLogger('silent', 'test'));
    const counted: string[] = [];
    health.count = (field) => counted.push(field);
    health.noteCounters(counters(4, 0));
    health.noteCounters(counters(6, 1));
    // Its second attempt falls behind the look.
    health.noteCounters(counters(7, 2));
    health.noteCounters(counters(9, 2));
    assert.deepEqual([health.refusing(), counted], [[], []]);
  });

  it('is one where nothing else is answered', () => {
    const health = new TemporalHealth(createLogger('silent', 'test'));
    health.noteCounters(counters(4, 0));
    health.noteCounters(counters(9, 5));
    assert.deepEqual(health.refusing(), [{ call: 'RespondWorkflowTaskCompleted', reason: 'invalid' }]);
  });
});
