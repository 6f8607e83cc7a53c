/**
 * `npm run test:faults`: breaks every part of the running service under load, again and again, and accounts for
 * every acknowledged event at the receiver. FAULT_KILLS sets how often (20; the long form is 200); FAULT_REPORT=1
 * writes the table to docs/reliability.md.
 */
import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readConfig } from '../../src/config.js';
import { projectDir } from '../../src/embedded/projectDir.js';
import { createLogger } from '../../src/log.js';
import { type Db, openDb, waitForRedis } from '../../src/store/db.js';
import { createSecretBox } from '../../src/store/secretBox.js';
import { eventsWithTwoIds, type Fate, fateOf } from './accounting.js';
import { type Cast, createCast } from './cast.js';
import { drawFaults, faults, pause } from './faults.js';
import { type Acknowledged, type Publisher, startPublisher } from './publisher.js';
import { type Row, table } from './report.js';
import { createSystem, parts, type System } from './system.js';
import { writeReport } from './writeReport.js';

const kills = Number(process.env.FAULT_KILLS || 20);
const clients = 5;
/** What the service takes in flight for one client by default. */
const inFlightPerClient = 16;
/** The sweep picks up within 2 minutes what nobody works on. */
const settleWithinMs = 130_000;

describe(`${kills} faults at random moments under load`, function () {
  this.timeout(kills * 60_000 + settleWithinMs);
  let system: System;
  let db: Db;
  let cast: Cast;
  let publisher: Publisher;
  const injected: { name: string; recoveryMs: number }[] = [];

  before(async () => {
    await mkdir(join(projectDir, '.data'), { recursive: true });
    system = await createSystem();
    await Promise.all(parts.map((part) => system.start(part)));
    await system.receiver.open();
    db = openDb({ url: system.redisUrl, prefix: '', log: createLogger('silent', 'faults') });
    await waitForRedis(db, 10_000);
    const box = createSecretBox(readConfig({ SECRETS_KEY: system.secretsKey }).SECRETS_KEY);
    cast = await createCast(db, box, system.apiUrl, system.receiver.url, clients);
    publisher = startPublisher({
      apiUrl: system.apiUrl,
      token: cast.platformToken,
      clientTokens: cast.clientTokens,
      assetsPerClient: 20,
      publishers: 8,
      fault: () => injected.length,
    });
  });

  after(async () => {
    await publisher?.stop();
    db?.redis.disconnect();
    await system?.stop();
  });

  it('recovers from each by itself', async () => {
    for (const { name, inject } of drawFaults(kills)) {
      await pause(200 + Math.random() * 800);
      const from = Date.now();
      await inject(system);
      const back = Date.now();
      await recovered(back);
      injected.push({ name, recoveryMs: Date.now() - from });
    }
    assert.deepEqual(system.brokenOff, []);
  });

  it('loses nothing acknowledged, gives no event two ids and repeats only what was in flight', async () => {
    await publisher.stop();
    const { acknowledged } = publisher;
    const fates = await settled(acknowledged);
    const rows = rowsOf(acknowledged, fates);
    const text = table(rows);
    console.log(`\n${text}\n\n${footer()}\n`);
    if (process.env.FAULT_REPORT === '1') await writeReport(text, footer());

    const missing = fates.filter((fate) => fate.kind === 'lost' || fate.kind === 'waiting');
    assert.deepEqual(missing, []);
    assert.deepEqual(await eventsWithTwoIds(db, cast.clientTokens, acknowledged, system.receiver), []);
    assert.deepEqual(publisher.wrong, []);
    assert.deepEqual(system.brokenOff, []);
    assert.ok(rows.every((row) => row.duplicated <= row.injected * clients * inFlightPerClient));
  });

  /** An event sent after the return was acknowledged and received. */
  async function recovered(back: number): Promise<void> {
    const end = Date.now() + 60_000;
    const received = ({ sentAt, notificationId }: Acknowledged) =>
      sentAt >= back && system.receiver.arrivals.has(notificationId);
    while (!publisher.acknowledged.some(received)) {
      assert.ok(Date.now() < end, 'no event got through within 60 s of the return');
      await pause(20);
    }
  }

  async function settled(acknowledged: readonly Acknowledged[]): Promise<Fate[]> {
    const end = Date.now() + settleWithinMs;
    const fates = new Map<Acknowledged, Fate>();
    for (;;) {
      const open = acknowledged.filter((event) => (fates.get(event)?.kind ?? 'waiting') === 'waiting');
      if (open.length === 0 || Date.now() > end) return acknowledged.map((event) => fates.get(event) as Fate);
      for (const event of open) fates.set(event, await fateOf(db, event, system.receiver));
      await pause(250);
    }
  }

  function rowsOf(acknowledged: readonly Acknowledged[], fates: readonly Fate[]): Row[] {
    return faults.map(({ name }) => {
      const times = injected.filter((one) => one.name === name);
      const met = acknowledged.flatMap((event, i) =>
        injected[Math.min(event.fault, injected.length - 1)]?.name === name
          ? [{ event, fate: fates[i] as Fate }]
          : [],
      );
      const count = (...kinds: Fate['kind'][]) => met.filter(({ fate }) => kinds.includes(fate.kind)).length;
      const arrived = met.map(({ event }) => system.receiver.arrivals.get(event.notificationId)?.length ?? 0);
      return {
        fault: name,
        injected: times.length,
        acknowledged: met.length,
        delivered: count('delivered'),
        superseded: count('superseded'),
        lost: count('lost', 'waiting'),
        duplicated: arrived.reduce((sum, n) => sum + Math.max(0, n - 1), 0),
        longestRecoveryMs: Math.max(0, ...times.map((one) => one.recoveryMs)),
      };
    });
  }

  function footer(): string {
    const { refused, withoutAnswer, slowestAnswerMs } = publisher;
    return `While it was broken the API answered 503 ${refused} times and not at all ${withoutAnswer} times; its slowest answer took ${(slowestAnswerMs / 1000).toFixed(1)} s.`;
  }
});
