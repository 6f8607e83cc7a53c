import assert from 'node:assert/strict';
import { startChild } from '../../bench/child.js';
import type { FromPublisher, Job, ToPublisher } from '../../bench/jobs.js';
import { type PublishedTo, startPublishedTo } from '../clients/service.js';

const events = 300;
/** So few share one call: too many calls with wrong credentials are answered 429. */
const few = 8;

describe('the benchmark’s publisher, through clients/node', () => {
  let to: PublishedTo;
  before(async () => {
    to = await startPublishedTo();
  });
  after(() => to.close());

  it('publishes each event once, and reports each with its notification', async () => {
    const { child } = await startChild<ToPublisher, FromPublisher>('publisher');
    const ended = child.next('published');
    child.send({ kind: 'publish', job: job(events) });
    const { published } = await ended;
    await child.stop();
    assert.deepEqual([published.refusals, published.givenUp, published.oddity], [{}, 0, undefined]);
    assert.equal(published.answers.at.length, events);
    const made = [...(await to.notifications()).values()].flat();
    assert.deepEqual(published.events.notificationIds.toSorted(), made.toSorted());
    assert.equal(made.length, events);
  });

  it('counts refused events', async () => {
    const { child } = await startChild<ToPublisher, FromPublisher>('publisher');
    const ended = child.next('published');
    child.send({
      kind: 'publish',
      job: { ...job(few), through: { clientId: 'nobody', clientSecret: 'wrong' } },
    });
    const { published } = await ended;
    await child.stop();
    assert.deepEqual(published.refusals, { invalid_client: few });
    assert.equal(published.givenUp, few);
  });

  const job = (total: number): Job => ({
    baseUrls: [to.api.url],
    connections: 1,
    pace: { kind: 'concurrency', publishers: 16 },
    warmUpMs: 0,
    durationMs: 60_000,
    through: { clientId: to.account.client_id, clientSecret: to.account.client_secret },
    request: {
      kind: 'events',
      accessToken: '',
      clientTokens: [to.clientToken],
      batchSize: 1,
      total,
      segments: 1,
      assets: 0,
      round: 'client',
    },
  });
});
