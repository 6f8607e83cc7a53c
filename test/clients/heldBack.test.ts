import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type EnrichmentEvent, EnrichmentsClient } from '../../clients/node/src/client.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { afterTest, forTest } from '../servers.js';
import { run } from '../tools.js';

const [clientId, clientSecret] = ['account', 'secret'];

/** Publishes with one of the libraries, and resolves once each event has its answer. */
type Publish = (url: string, events: EnrichmentEvent[]) => Promise<unknown>;

function openNode(url: string, told: number[] = []): EnrichmentsClient {
  const onRetry = (_: string, failures: number) => void told.push(failures);
  const options = { url, clientId, clientSecret, concurrency: 2, batchSize: 10, onRetry };
  const client = new EnrichmentsClient(options);
  afterTest(() => client.close(0));
  return client;
}

const python = async (program: string, input = ''): Promise<string> => {
  const env = { PATH: process.env.PATH, PYTHONPATH: join(import.meta.dirname, '../../clients/python/src') };
  const text = `import json, sys, asset_update_client as client\n${program}`;
  const running = run('python3', ['-B', '-c', text], { env });
  running.child.stdin?.end(input);
  return (await running).stdout;
};

const libraries: Record<string, Publish> = {
  'clients/node': (url, events) => {
    const client = openNode(url);
    return Promise.all(events.map((one) => client.send(one)));
  },
  'clients/python': (url, events) =>
    python(
      `client.EVENTS_IN_A_CALL = 10
list(client.Publisher("${url}", "a", "b", lambda *_: None).publish(json.load(sys.stdin)))`,
      JSON.stringify(events),
    ),
};

const eventOf = (client_token: string, n: number): EnrichmentEvent => ({
  client_token,
  platform_id: `video-${n}`,
  segments: ['iab:17'],
});

/** A service that cannot answer for the client AWAY until it has taken all events of others. */
function answerFor(service: Receiver, others: number): string[] {
  const taken: string[] = [];
  let othersTaken = 0;
  service.answer = ({ path, body }) => {
    if (!path.endsWith('/enrichments'))
      return { status: 200, body: '{"access_token":"t","expires_in":3600}' };
    const { events } = JSON.parse(body) as { events: EnrichmentEvent[] };
    const isAway = othersTaken < others;
    const isUnknown = (one: EnrichmentEvent) => isAway && one.client_token === 'AWAY';
    if (events.every(isUnknown)) return 503;
    const results = events.map((one) =>
      isUnknown(one) ? { code: 'temporarily_unavailable' } : { notification: 'queued' },
    );
    for (const one of events.filter((one) => !isUnknown(one))) {
      if (one.client_token === 'AWAY') taken.push(one.platform_id);
      else othersTaken++;
    }
    return { status: 202, body: JSON.stringify({ results }) };
  };
  return taken;
}

describe('A client without an answer', () => {
  const service = forTest(() => startReceiver());

  const orders: [how: string, isAway: (n: number) => boolean][] = [
    ['in shared calls', (n) => n % 2 === 0],
    ['alone in its calls', (n) => n < 60],
  ];
  for (const [name, publish] of Object.entries(libraries))
    for (const [how, isAway] of orders)
      it(`${name}: delays no other client ${how}, and its events keep their order`, async function () {
        // The former clients never came to an end.
        this.timeout(20_000);
        const taken = answerFor(service, 60);
        const events = Array.from({ length: 120 }, (_, n) => eventOf(isAway(n) ? 'AWAY' : 'HERE', n));
        await publish(service.url, events);
        assert.deepEqual(
          taken,
          events.flatMap((one, n) => (isAway(n) ? one.platform_id : [])),
        );
      });

  it('clients/node: close() gives its events up in time', async () => {
    answerFor(service, 1);
    const told: number[] = [];
    const client = openNode(service.url, told);
    const sent = Array.from({ length: 60 }, (_, n) => client.send(eventOf('AWAY', n)));
    const refused = Promise.all(sent.map((one) => assert.rejects(one, { code: 'closed' })));
    await until('it was told', () => told.length > 0);
    await client.close(1);
    assert.equal(client.queued, 0);
    await refused;
  });

  it('clients/python: reads no further event while its bound of events wait for an answer', async () => {
    service.answer = ({ path }) => {
      if (!path.endsWith('/enrichments')) return { status: 200, body: '{"access_token":"t"}' };
      return service.received.length < 4
        ? 503
        : { status: 202, body: '{"results":[{"notification":"queued"}]}' };
    };
    const printed = await python(`client.EVENTS_IN_A_CALL, client.EVENTS_WAITING = 2, 4
def read_events():
    for n in range(6):
        print(n)
        yield {"client_token": "A"}
for _ in client.Publisher("${service.url}", "a", "b", lambda *_: None).publish(read_events()):
    print("result")
    break`);
    assert.equal(printed, '0\n1\n2\n3\nresult\n');
  });
});
