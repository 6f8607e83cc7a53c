import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { allDetails, explainFailure } from '../../src/outgoing/details.js';

it('docs/guides/receivers.md gives each detail of a failed attempt the remedy that check and console give', () => {
  const page = readFileSync('docs/guides/receivers.md', 'utf8').split('| `detail` | remedy |')[1] ?? '';
  const rows = [...page.matchAll(/^\| (`.*) \| (.*) \|$/gm)].flatMap(([, details = '', remedy = '']) =>
    details.split(', ').map((detail) => [detail.replaceAll('`', ''), remedy.replace(/\[(.*)\]\(.*\)/, '$1')]),
  );
  const told = allDetails.map((detail) => [detail, explainFailure({ detail }).advice.replaceAll('’', "'")]);
  assert.deepEqual(Object.fromEntries(rows), Object.fromEntries(told));
  assert.equal(rows.length, told.length);
});

it('a failed attempt with a status is told by it, with or without a detail', () => {
  for (const [status, detail, does, advice] of [
    [503, 'retry_after_unreadable', 'answers 503 and sends a Retry-After that we cannot read', /HTTP date/],
    [502, undefined, 'answers 502', /logs of your server and of each proxy/],
  ] as const) {
    const told = explainFailure({ error: 'http_status', status, detail });
    assert.equal(told.does, does);
    assert.match(told.advice, advice);
  }
});
