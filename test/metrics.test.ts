import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { startService } from './program.js';
import { openForSuite } from './servers.js';

describe('GET /metrics of a running service', () => {
  const service = openForSuite(() => startService());

  it('has the metrics of the service that docs/reference/metrics.md names, and no other', async () => {
    const page = readFileSync('docs/reference/metrics.md', 'utf8');
    const rows = page.split('\n').filter((line) => line.startsWith('| `'));
    const named = rows.flatMap((row) => row.split(' | ')[0]?.match(/\basset_update_\w+/g) ?? []);
    const text = await (await fetch(`${service.adminUrl}/metrics`)).text();
    const served = [...text.matchAll(/^# TYPE (asset_update_\w+) /gm)].map(([, name]) => name);
    assert.deepEqual(named.toSorted(), served.toSorted());
  });
});
