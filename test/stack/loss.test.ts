/** Backup, restore and the loss of a store, with the commands of docs/guides/disaster.md. */
import assert from 'node:assert/strict';
import { cp, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pauseEndpoint } from '../../src/redis/records/endpoint.js';
import type { Cast } from '../faults/cast.js';
import { runsHere } from './runsHere.mjs';
import { StartedStack } from './startedStack.js';

describe('npm run stack: the loss', function () {
  this.timeout(900_000);
  let stack: StartedStack;
  let cast: Cast;

  before(async function () {
    if (!runsHere()) return this.skip();
    this.timeout(1_800_000);
    stack = await StartedStack.inNewFolder();
    await stack.run(['up']);
    cast = await stack.createCast(2);
  });
  after(() => stack?.remove());

  /** Publishes while the receiver is down, so that each asset is owed. */
  async function owe(...assets: string[]): Promise<string[]> {
    await (await stack.receiver()).breakOff();
    return Promise.all(assets.map((asset, i) => stack.publish(cast, i % 2, asset)));
  }

  it('of Redis makes up refuse an empty primary, and loses nothing acknowledged once the replica is copied', async () => {
    const delivered = await stack.publish(cast, 0, 'delivered-before');
    await stack.received([delivered]);
    const owed = await owe('owed-1', 'owed-2', 'owed-3');
    await stack.run(['down']);
    await rm(join(stack.dir, 'redis'), { recursive: true });

    assert.match(
      await stack.run(['up'], 1),
      /the folder of redis is empty, but the folder of its replica is not/,
    );
    assert.ok((await readdir(join(stack.dir, 'replica', 'appendonlydir'))).length > 0);
    await cp(join(stack.dir, 'replica'), join(stack.dir, 'redis'), { recursive: true });
    const receiver = await stack.receiver();
    await receiver.open();
    await stack.run(['up']);
    await stack.received(owed);
    assert.equal(
      await stack.tryToPublish(cast, 0, 'delivered-before'),
      delivered,
      'a repeat makes no notification',
    );
    assert.equal(receiver.arrivals.get(delivered)?.length, 1);
  });

  it('of PostgreSQL loses no owed asset: an empty Temporal delivers them', async () => {
    const owed = await owe('owed-4', 'owed-5');
    await stack.run(['down']);
    await rm(join(stack.dir, 'postgresql'), { recursive: true });
    await (await stack.receiver()).open();
    await stack.run(['up']);
    await stack.received([...owed, await stack.publish(cast, 0, 'after-postgresql')]);
  });

  it('of both stores is repaired by a backup, which restores every event acknowledged before it began to copy Redis', async () => {
    const receiver = await stack.receiver();
    const known = await stack.publish(cast, 0, 'known');
    await stack.received([known]);
    const owed = await owe('owed-6', 'owed-7', 'owed-8');
    // Only catch-up delivers it: no workflow of the copy would.
    await stack.withDb((db) => pauseEndpoint(db, cast.clientTokens[1] ?? ''));
    const paused = await stack.publish(cast, 1, 'paused');
    const folder = join(stack.dataDir, 'copy');
    // Acknowledged during the copy: in it or not, and safe to send again.
    const copying = stack.run(['backup', folder]);
    const meanwhile: string[] = [];
    for (let i = 0, done = false; !done; i++) {
      meanwhile.push(await stack.publish(cast, 0, `meanwhile-${i}`));
      done = await Promise.race([
        copying.then(() => true),
        new Promise<false>((next) => setTimeout(next, 50, false)),
      ]);
    }
    assert.match(await copying, /postgresql {2}as of .*\n {2}redis {7}as of /);
    const record = JSON.parse(await readFile(join(folder, 'backup.json'), 'utf8'));
    assert.ok(record.postgresql.to <= record.redis.from, 'Redis last');
    const since = await stack.publish(cast, 0, 'since-the-copy');

    assert.match(await stack.run(['restore', folder], 1), /the stack runs/);
    await stack.run(['down']);
    for (const store of ['redis', 'replica', 'postgresql'])
      await rm(join(stack.dir, store), { recursive: true });
    assert.match(
      await stack.run(['restore', folder]),
      /redis has its state of .*\npostgresql has its state of /,
    );
    await receiver.open();
    await stack.run(['up']);
    await stack.received(owed.filter((_, i) => i % 2 === 0));
    await stack.operator('registration', 'resume', cast.clientTokens[1] ?? '');
    await stack.received([...owed, paused]);

    // The platform sends the events since the beginning of the copy again: each keeps its id.
    for (const [i, id] of meanwhile.entries())
      assert.equal(await stack.publish(cast, 0, `meanwhile-${i}`), id);
    assert.equal(await stack.publish(cast, 0, 'since-the-copy'), since);
    await stack.received([...meanwhile, since]);
    assert.equal(await stack.tryToPublish(cast, 0, 'known'), known);
    assert.equal(
      receiver.arrivals.get(known)?.length,
      1,
      'an event delivered before the copy is not sent again',
    );
  });

  it('of Redis and its replica is repaired by the Redis of a backup and by sending the later events again', async () => {
    const owed = await owe('owed-9', 'owed-10');
    const folder = join(stack.dataDir, 'copy-2');
    await stack.run(['backup', folder]);
    // Its workflow still runs and knows its claims: it claims again.
    const since = await stack.publish(cast, 0, 'since-the-second-copy');
    await stack.run(['down']);
    for (const store of ['redis', 'replica']) await rm(join(stack.dir, store), { recursive: true });
    assert.match(
      await stack.run(['restore', folder, '--only', 'redis']),
      /^redis has its state of [^\n]*\nstart the stack/m,
    );
    await (await stack.receiver()).open();
    await stack.run(['up']);
    await stack.received(owed);
    assert.equal(await stack.publish(cast, 0, 'since-the-second-copy'), since);
    await stack.received([since]);
  });

  it('is not repaired by an incomplete backup, which changes nothing', async () => {
    await stack.run(['down']);
    const folder = join(stack.dataDir, 'copy');
    await rm(join(folder, 'postgresql', 'data', 'PG_VERSION'));
    assert.match(await stack.run(['restore', folder], 1), /PG_VERSION/);
    await rm(join(folder, 'backup.json'));
    assert.match(await stack.run(['restore', folder, '--only', 'redis'], 1), /is not a backup/);
    await stack.run(['up']);
    await stack.received([await stack.publish(cast, 0, 'last')]);
  });
});
