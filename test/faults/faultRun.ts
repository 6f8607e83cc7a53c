/** A system under load, in which one thing after the other is broken, and whose account is given at the end. */
import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import { mapInPages } from '../../src/promises.js';
import { waitForRedis } from '../../src/redis/connection/db.js';
import { type Fate, fateOf, lostRegistrations, noRecord, refusedTokens } from './accounting.js';
import type { Fault } from './faults.js';
import { type Acknowledged, startMinter, startPublisher, startRegistrar } from './load.js';
import { type FaultSceneOptions, setScene } from './scene.js';
import type { System } from './system.js';

/** The default number of attempts in flight for one client. */
export const inFlightPerClient = 16;
/** The sweep picks up within 30 seconds what nobody works on. */
const sweptWithinMs = 60_000;

export type FaultRun = Awaited<ReturnType<typeof startFaultRun>>;

/** What one kind of fault did; docs/reliability.md has the rows of the long form. */
export interface Row {
  fault: string;
  injected: number;
  /** Events answered `queued`. */
  acknowledged: number;
  /** Of events, tokens and registrations. */
  lost: number;
  duplicated: number;
  longestRecoveryMs: number;
  /** Events answered 503. */
  refused: number;
  slowestAnswerMs: number;
}

export interface Account {
  rows: Row[];
  lost: string[];
  /** Answers that nobody should get. */
  wrong: string[];
  brokenOff: string[];
}

interface FaultRunOptions extends FaultSceneOptions {
  assetsPerClient?: number;
  publishers?: number;
  pauseMs?: number;
  mintEveryMs?: number;
  registerEveryMs?: number;
  /** The API to send the next event to; the first one by default. */
  chooseApi?: (system: System) => string;
}

export async function startFaultRun(options: FaultRunOptions = {}) {
  const { clients = 5, chooseApi } = options;
  const scene = await setScene({ ...options, clients });
  const { system, db, cast } = scene;
  const injected: { name: string; recoveryMs: number }[] = [];
  const fault = () => injected.length;
  const apiUrl = () => (chooseApi === undefined ? system.apiUrl : chooseApi(system));
  const common = { apiUrl, cast, fault };
  const publisher = startPublisher({
    ...common,
    assetsPerClient: options.assetsPerClient ?? 20,
    publishers: options.publishers ?? 8,
    pauseMs: options.pauseMs,
  });
  const minter = startMinter({ ...common, everyMs: options.mintEveryMs ?? 50 });
  const registrar = startRegistrar({ ...common, db, everyMs: options.registerEveryMs ?? 250 });

  const early = new Map<Acknowledged, Fate>();
  const open = new Set<Acknowledged>();
  let seen = 0;

  /** An event sent after the return was acknowledged and received. */
  async function recovered(back: number): Promise<void> {
    const end = back + 60_000;
    const received = ({ sentAt, notificationId }: Acknowledged) =>
      sentAt >= back && system.receiver.arrivals.has(notificationId);
    while (!publisher.acknowledged.some(received)) {
      assert.ok(Date.now() < end, 'no event got through within 60 s of the return');
      await pause(20);
    }
  }

  /** Faster than the publishers go on acknowledging. */
  function fatesOf(events: readonly Acknowledged[]): Promise<[Acknowledged, Fate][]> {
    return mapInPages(events, 100, async (event) => {
      const fate = await fateOf(db, event, system.receiver);
      return [
        event,
        'why' in fate && fate.why === noRecord && isReplaced(event) ? { kind: 'delivered' } : fate,
      ];
    });
  }

  /** Returns whether a newer event of the asset has arrived: a long run's records give way. */
  const isReplaced = ({ clientToken, platformId, sentAt }: Acknowledged): boolean =>
    publisher.acknowledged.some(
      (other) =>
        other.platformId === platformId &&
        other.clientToken === clientToken &&
        other.sentAt > sentAt &&
        system.receiver.arrivals.has(other.notificationId),
    );

  async function settled(acknowledged: readonly Acknowledged[], withinMs: number): Promise<Fate[]> {
    const end = Date.now() + withinMs;
    const fates = new Map(early);
    for (;;) {
      const left = acknowledged.filter((event) => (fates.get(event)?.kind ?? 'waiting') === 'waiting');
      for (const [event, fate] of await fatesOf(left)) fates.set(event, fate);
      const done = left.every((event) => fates.get(event)?.kind !== 'waiting');
      if (done || Date.now() >= end) return acknowledged.map((event) => fates.get(event) as Fate);
      await pause(250);
    }
  }

  /** Looks now for what has been acknowledged so far, before a long run's records give way to newer ones. */
  async function accountSoFar(): Promise<void> {
    // It may have just come back.
    await waitForRedis(db, 10_000);
    for (; seen < publisher.acknowledged.length; seen++)
      open.add(publisher.acknowledged[seen] as Acknowledged);
    for (const [event, fate] of await fatesOf([...open])) {
      if (fate.kind === 'waiting') continue;
      early.set(event, fate);
      open.delete(event);
    }
  }

  /**
   * Ends the load and says what became of everything that was acknowledged. What still waits after `settleWithinMs`
   * counts as lost.
   */
  async function account(settleWithinMs = sweptWithinMs): Promise<Account> {
    await Promise.all([publisher.stop(), minter.stop(), registrar.stop()]);
    const { acknowledged } = publisher;
    const fates = await settled(acknowledged, settleWithinMs);
    const [aClient = ''] = cast.clientTokens;
    const refused = await refusedTokens(system.apiUrl, aClient, minter.tokens);
    const gone = await lostRegistrations(db, registrar.registrations);

    const isLost = ({ fate }: { fate: Fate }) => fate.kind !== 'delivered';
    const nameOf = (met: number) => injected[Math.min(met, injected.length - 1)]?.name;
    const names = [...new Set(injected.map(({ name }) => name))];
    const rows = names.map((name): Row => {
      const times = injected.filter((one) => one.name === name);
      const during = <T extends { fault: number }>(all: readonly T[]) =>
        all.filter((one) => nameOf(one.fault) === name);
      const met = acknowledged.flatMap((event, i) =>
        nameOf(event.fault) === name ? [{ event, fate: fates[i] as Fate }] : [],
      );
      const arrived = met.map(({ event }) => system.receiver.arrivals.get(event.notificationId)?.length ?? 0);
      const answers = publisher.answers.filter((_, i) => nameOf(i) === name);
      return {
        fault: name,
        injected: times.length,
        acknowledged: met.length,
        lost: met.filter(isLost).length + during(refused).length + during(gone).length,
        duplicated: arrived.reduce((sum, n) => sum + Math.max(0, n - 1), 0),
        longestRecoveryMs: Math.max(0, ...times.map((one) => one.recoveryMs)),
        refused: answers.reduce((sum, one) => sum + one.refused, 0),
        slowestAnswerMs: Math.max(0, ...answers.map((one) => one.slowestMs)),
      };
    });
    return {
      rows,
      lost: [
        ...fates.flatMap((fate) => ('why' in fate ? [`${fate.kind}: ${fate.why}`] : [])),
        ...refused.map(() => 'a token is not taken any more'),
        ...gone.map((one) => `a registration: ${JSON.stringify(one)}`),
      ],
      wrong: [...publisher.wrong, ...minter.wrong, ...registrar.wrong],
      brokenOff: system.brokenOff,
    };
  }

  return {
    system,
    db,
    cast,
    publisher,
    minter,
    registrar,
    accountSoFar,
    account,
    /** Breaks it, brings it back, and waits until an event sent after the return was received; the return's moment (ms). */
    async inject({ name, inject }: Fault): Promise<number> {
      const back = await inject(system);
      await recovered(back);
      injected.push({ name, recoveryMs: Date.now() - back });
      return back;
    },
    /** Names what has just been going on without a fault of this suite; the account gives it a row. */
    note: (name: string, recoveryMs: number) => void injected.push({ name, recoveryMs }),
    async stop(): Promise<void> {
      await Promise.all([publisher.stop(), minter.stop(), registrar.stop()]);
      await scene.stop();
    },
  };
}

/** Nothing acknowledged was lost, and only what was in flight was repeated. */
export function assertKept(account: Account, clients = 5): void {
  assert.deepEqual(account.lost, []);
  assert.deepEqual(account.wrong, []);
  assert.deepEqual(account.brokenOff, []);
  for (const row of account.rows) {
    assert.ok(row.duplicated <= row.injected * clients * inFlightPerClient, JSON.stringify(row));
  }
}
