import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Worker } from '@temporalio/worker';
import { DeterminismViolationError } from '@temporalio/workflow';
import { workflowBundlePath } from '../../src/temporal/bundle.js';

interface RecordedHistory {
  events: {
    activityTaskScheduledEventAttributes?: { activityType: { name: string } };
  }[];
}

describe('Workflows that run continue on this code', () => {
  const dir = join(import.meta.dirname, '../histories');
  const shipped = { workflowBundle: { codePath: workflowBundlePath() } };

  const recorded = async () => (await readdir(dir)).filter((name) => name.endsWith('.json.gz')).sort();
  const read = async (name: string) =>
    JSON.parse(gunzipSync(await readFile(join(dir, name))).toString()) as RecordedHistory;

  it('every recorded history replays on the present code', async () => {
    const names = await recorded();
    assert.ok(names.length >= 8, `recorded are ${names.join(', ')}`);
    const histories = await Promise.all(
      names.map(async (workflowId) => ({ workflowId, history: await read(workflowId) })),
    );
    const replayed = [];
    for await (const { workflowId, error } of Worker.runReplayHistories(shipped, histories as never)) {
      assert.equal(error, undefined, `${workflowId}: ${error?.message}`);
      replayed.push(workflowId);
    }
    assert.deepEqual(replayed.sort(), names);
  });

  it('a history that the code could not have made is a determinism violation', async () => {
    const history = await read('catch-up-says-why-then-drains.json.gz');
    const scheduled = history.events.find((e) => e.activityTaskScheduledEventAttributes !== undefined);
    assert.ok(scheduled?.activityTaskScheduledEventAttributes);
    scheduled.activityTaskScheduledEventAttributes.activityType.name = 'somethingElse';
    await assert.rejects(Worker.runReplayHistory(shipped, history), DeterminismViolationError);
  });

  it('code that takes another step than before is a determinism violation', async () => {
    const code = await readFile(workflowBundlePath(), 'utf8');
    const step = 'const result = await drain(clientToken)';
    const changed = code.replace(step, `await new Promise((resolve) => setTimeout(resolve, 5)); ${step}`);
    assert.notEqual(changed, code, 'the step is in the bundle');
    await assert.rejects(
      Worker.runReplayHistory(
        { workflowBundle: { code: changed } },
        await read('catch-up-says-why-then-drains.json.gz'),
      ),
      DeterminismViolationError,
    );
  });
});
