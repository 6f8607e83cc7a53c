import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { Worker } from '@temporalio/worker';
import { workflowBundlePath } from '../../src/temporal/bundle.js';

describe('Workflows that run continue on this code', () => {
  const dir = join(import.meta.dirname, '../histories');
  const shipped = { workflowBundle: { codePath: workflowBundlePath() } };

  it('every recorded history replays on the present code', async () => {
    const names = (await readdir(dir)).filter((name) => name.endsWith('.json.gz')).sort();
    assert.ok(names.length >= 8, `recorded are ${names.join(', ')}`);
    const histories = await Promise.all(
      names.map(async (workflowId) => {
        const history = gunzipSync(await readFile(join(dir, workflowId)));
        return { workflowId, history: JSON.parse(history.toString()) };
      }),
    );
    const replayed = [];
    for await (const { workflowId, error } of Worker.runReplayHistories(shipped, histories)) {
      assert.equal(error, undefined, `${workflowId}: ${error?.message}`);
      replayed.push(workflowId);
    }
    assert.deepEqual(replayed.sort(), names);
  });
});
