import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { clientTokenKey } from '../../src/temporal/searchAttributeKeys.js';
import { searchAttributeTypes } from '../../src/temporal/searchAttributes.js';
import { type Harness, type Receiver, startHarness, startReceiver, until } from '../delivery/harness.js';

const page = readFileSync(join(import.meta.dirname, '../../docs/reference/temporal-ui.md'), 'utf8');
const views = [...page.matchAll(/^\| ([^|`]+) \| `([^`|]+'[^`|]*|[^`|]+ >= \d+)` \|$/gm)].map(
  ([, name = '', query = '']) => ({ name, query }),
);

describe('docs/reference/temporal-ui.md', () => {
  let h: Harness;
  let receiver: Receiver;
  let client: string;
  before(async () => {
    h = await startHarness({ RETRY_SCHEDULE_SECONDS: '1,1,1,3600', failingAfter: 100 });
    await h.startWorker();
    receiver = await startReceiver();
    receiver.answer = () => 503;
    client = await h.newClient(receiver.url);
    await h.publish({ client, asset: 'vid-9', eventId: 'an-7731' });
  });
  after(async () => {
    await receiver.close();
    await h.close();
  });

  it('lists the search attributes of the service', () => {
    const rows = [...page.matchAll(/^\| `(\w+)` \| (?:KeywordList|Keyword|Int) \|/gm)].map(
      ([, name]) => name,
    );
    assert.deepEqual(rows, Object.keys(searchAttributeTypes));
  });

  it('has only queries that Temporal accepts', async () => {
    assert.equal(views.length, 10);
    for (const { name, query } of views) {
      await assert.doesNotReject(h.temporal.workflow.count(query), `${name}: ${query}`);
    }
  });

  for (const [name, type] of [
    ['clients that are owed something', 'catch-up'],
    ['events handed over to catch-up', 'enrichment'],
    ['events that a receiver answered with 5xx', 'enrichment'],
    ['everything of a client', 'enrichment'],
    ['everything of an asset', 'enrichment'],
    ['the workflow of an event', 'enrichment'],
  ] as const) {
    it(`finds ${name}`, async () => {
      const query = views.find((view) => view.name === name)?.query.replace('SITE0042', client);
      await until(`found: ${query}`, async () => {
        for await (const found of h.temporal.workflow.list({ query: String(query) })) {
          const clients = found.typedSearchAttributes.get(clientTokenKey);
          if (clients?.includes(client) && found.type === type) return true;
        }
        return false;
      });
    });
  }
});
