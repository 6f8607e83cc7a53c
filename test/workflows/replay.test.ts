import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Worker } from '@temporalio/worker';
import { workflowBundlePath } from '../../src/temporal/bundle.js';

describe('Workflows that run continue on this code', () => {
  const dir = join(import.meta.dirname, '../histories');
  const names = readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.json.gz'))
    .sort();

  it('every recorded history of every release that is kept replays on the present code', async () => {
    assert.ok(names.length >= 10, `recorded are ${names.join(', ')}`);
    // A history has the input of its workflow and each answer of its activities.
    const histories = names.map((workflowId) => {
      const history = gunzipSync(readFileSync(join(dir, workflowId)));
      return { workflowId, history: JSON.parse(history.toString()) };
    });
    const failed: Record<string, string> = {};
    let replayed = 0;
    const workflowBundle = { codePath: workflowBundlePath() };
    for await (const { workflowId, error } of Worker.runReplayHistories({ workflowBundle }, histories)) {
      replayed++;
      if (error !== undefined) failed[workflowId] = error.message;
    }
    assert.equal(replayed, names.length);
    assert.deepEqual(failed, {});
  });
});
