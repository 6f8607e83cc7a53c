/**
 * Witnesses the clock of each server: it may step back (NTP, a replica that is behind and takes over), or run ahead. Each call of a script
 * says which step its caller knows of, so that a client's next call sets right what was noted before (`set_right` in take.lua). A witness
 * that knows less than a process has read there before is that of an older store.
 */
import { shared } from '../../constants.js';
import type { Logger } from '../../log.js';
import { type Db, nowOf } from './db.js';
import { evaluate } from './library.js';
import { partOn, whileOpen } from './nodes.js';

const everyMs = 1000;

/** Notes the clock of each server, and which steps back are known. @throws errors of Redis */
export async function witnessClocks(db: Db, log: Logger): Promise<void> {
  await Promise.all(
    db.nodes.primaries().map(async (server) => {
      const key = partOn(db.nodes, db.global.clock, server);
      if (key === undefined) return;
      const args = db.health.witnessed.get(key) ?? [0, 0];
      const seen = await evaluate<number[]>(db, 'witnessClock', [key], args);
      const [now = 0, turned = 0, backMs = 0, olderFrom = 0, from = 0, at = 0] = seen;
      db.health.witnessed.set(key, [now, turned]);
      db.nodes.turned.set(server, turned);
      if (at > 0) db.nodes.lost.set(server, { from, at });
      const name = { server: db.nodes.nameOf(server) || undefined };
      if (backMs > 0)
        log.warn({ ...name, back_ms: backMs }, "redis' clock has stepped back: what waits is set right");
      if (olderFrom > 0)
        log.error({ ...name, written_until: new Date(olderFrom).toISOString() }, explainOlder(olderFrom));
      const aheadMs = now - nowOf(db);
      const { differing } = db.health;
      if (Math.abs(aheadMs) <= shared.clocksAgreeMs) {
        if (differing.delete(server)) log.info(name, 'the clocks of redis and this process agree again');
      } else if (!differing.has(server)) {
        differing.add(server);
        const says = 'nothing ends as failed, and no endpoint is suspended, until they agree';
        const about = { ...name, redis_ahead_ms: aheadMs };
        log.error(about, `the clocks of redis and this process differ: ${says}`);
      }
    }),
  );
}

/** Witnesses the clocks until the connection ends. While a server is unavailable, its clock is not known. */
export function watchClocks(db: Db, log: Logger): void {
  const witness = () =>
    witnessClocks(db, log).catch((err: unknown) => log.debug({ err }, 'no clock was seen'));
  void witness();
  whileOpen(db.redis, everyMs, witness);
}

export const explainOlder = (fromMs: number): string =>
  `the store is an older one: what was written after ${new Date(fromMs).toISOString()} is missing`;

/** What happened to a server last, and when (by its clock): its clock stepped back by so much (ms), or its data became that of a time. */
export type Step = { server: string; at: number; backMs: number; olderFrom: number };

/** Returns the last step back of each server's clock, and of its data. @throws errors of Redis */
export async function readSteps(db: Db): Promise<Step[]> {
  const steps = await Promise.all(
    db.nodes.primaries().map(async (server) => {
      const known = await db.redis.hgetall(partOn(db.nodes, db.global.clock, server) ?? '');
      const of = { server: db.nodes.nameOf(server), backMs: 0, olderFrom: 0 };
      return [
        { ...of, at: Number(known.turned_at), backMs: Number(known.back_ms ?? 0) },
        { ...of, at: Number(known.older_at), olderFrom: Number(known.older_from ?? 0) },
      ];
    }),
  );
  return steps.flat().filter(({ backMs, olderFrom }) => backMs + olderFrom > 0);
}
