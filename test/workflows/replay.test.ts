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
  const bundle = readFileSync(workflowBundlePath(), 'utf8');

  /** Returns what fails, by history: a history has the input of its workflow and each answer of its activities. */
  async function replay(code: string, only = ''): Promise<Record<string, string>> {
    const tried = names.filter((name) => name.includes(only));
    const histories = tried.map((workflowId) => {
      const history = gunzipSync(readFileSync(join(dir, workflowId)));
      return { workflowId, history: JSON.parse(history.toString()) };
    });
    const failed: Record<string, string> = {};
    let replayed = 0;
    for await (const { workflowId, error } of Worker.runReplayHistories(
      { workflowBundle: { code } },
      histories,
    )) {
      replayed++;
      if (error !== undefined) failed[workflowId] = error.message;
    }
    assert.equal(replayed, tried.length);
    return failed;
  }

  it('every recorded history of every release that is kept replays on the present code', async () => {
    assert.ok(names.length >= 10, `recorded are ${names.join(', ')}`);
    assert.deepEqual(await replay(bundle), {});
  });

  for (const [what, here, there, fails] of [
    ['takes other steps', 'await awaitDelivery(', 'await deliver(', 'awaits-a-slow-receiver'],
    ['needs a member that an input lacks', 'merge(before,', 'merge(before.later.added,', 'delivered-at-once'],
    ['needs a member that an answer lacks', 'drained.tookMs', 'drained.later.tookMs', 'says-why-then-drains'],
  ] as const)
    it(`a change that ${what} is found`, async () => {
      assert.ok(bundle.includes(here));
      assert.notDeepEqual(await replay(bundle.replace(here, there), fails), {});
    });
});
