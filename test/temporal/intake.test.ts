import assert from 'node:assert/strict';
import { Client, Connection } from '@temporalio/client';
import type { AcceptedEvent } from '../../activities/outcome.js';
import { notificationId } from '../../src/ids.js';
import { createLogger } from '../../src/log.js';
import { createIntake } from '../../src/temporal/intake.js';
import { servers, uniquePrefix } from '../servers.js';

describe('The intake', () => {
  let connection: Connection;

  before(async () => {
    connection = await Connection.connect({ address: servers().temporalAddress });
  });
  after(() => connection.close());

  function accepted(clientToken: string, n: number): AcceptedEvent {
    const event = { clientToken, platformId: `vid-${n}`, eventId: `an-${n}`, segments: ['x'] };
    const id = notificationId(event);
    return { ...event, notificationId: id, priority: 'live', lookedUpClaim: 0, acceptedAt: Date.now() };
  }

  it('lets nobody wait for somebody else’s flood: each client has its share of a group', async () => {
    const groups: number[] = [];
    const flood = uniquePrefix();
    const other = uniquePrefix();
    const intake = createIntake({
      temporal: new Client({ connection }),
      taskQueue: uniquePrefix(),
      log: createLogger('silent', 'test'),
      eager: false,
      grouped: (events) => groups.push(events),
    });
    const taken: string[] = [];
    const accept = async (clientToken: string, n: number) => {
      await intake.accept(accepted(clientToken, n));
      taken.push(clientToken);
    };
    await Promise.all([
      ...Array.from({ length: 300 }, (_, n) => accept(flood, n)),
      ...Array.from({ length: 10 }, (_, n) => accept(other, n)),
    ]);
    await intake.close();
    assert.equal(
      groups.reduce((sum, events) => sum + events, 0),
      310,
    );
    assert.ok(Math.max(...groups) <= 74, `groups of ${groups.join(', ')}`);
    const before = taken.slice(0, taken.lastIndexOf(other)).filter((client) => client === flood);
    assert.ok(before.length <= 64, `${before.length} of the flood came first`);
  });
});
