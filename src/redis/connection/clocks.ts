/**
 * Witnesses the clock of each server: it may step back (NTP, a replica that is behind and takes over), or run ahead. Each call of a script
 * says which step its caller knows of, so that a client's next call sets right what was noted before (`set_right` in take.lua).
 */
import type { Redis } from 'ioredis';
import type { Logger } from '../../log.js';
import { type Db, nowOf } from './db.js';
import { rangeTags } from './keys.js';
import { evaluate } from './library.js';

const everyMs = 1000;
/** `AGREE_MS` in client.lua: while the clocks differ by more, nothing ends for good. */
export const clocksAgreeMs = 300_000;

const witnessOf = ({ nodes, global }: Db, server: Redis): string | undefined =>
  (nodes.isCluster ? rangeTags.map(global.clockBeside) : [global.clock]).find(
    (key) => nodes.ownerOf(key) === server,
  );

/** Notes the clock of each server, and which steps back are known. @throws errors of Redis */
export async function witnessClocks(db: Db, log: Logger): Promise<void> {
  await Promise.all(
    db.nodes.primaries().map(async (server) => {
      const key = witnessOf(db, server);
      if (key === undefined) return;
      const [now, turned, backMs] = await evaluate<[number, number, number]>(db, 'witnessClock', [key]);
      db.nodes.turned.set(server, turned);
      const name = { server: db.nodes.nameOf(server) || undefined };
      if (backMs > 0)
        log.warn({ ...name, back_ms: backMs }, "redis' clock has stepped back: what waits is set right");
      const aheadMs = now - nowOf(db);
      const differs = Math.abs(aheadMs) > clocksAgreeMs;
      if (differs !== db.health.differing.has(server)) {
        if (differs) {
          db.health.differing.add(server);
          const says = 'nothing ends as failed, and no endpoint is suspended, until they agree';
          log.error({ ...name, ahead_ms: aheadMs }, `the clocks of redis and this process differ: ${says}`);
        } else {
          db.health.differing.delete(server);
          log.info(name, 'the clocks of redis and this process agree again');
        }
      }
    }),
  );
}

/** Witnesses the clocks until the connection ends. While a server is unavailable, its clock is not known. */
export function watchClocks(db: Db, log: Logger): void {
  const witness = () =>
    witnessClocks(db, log).catch((err: unknown) => log.debug({ err }, 'no clock was seen'));
  void witness();
  const timer = setInterval(witness, everyMs);
  timer.unref();
  db.redis.once('end', () => clearInterval(timer));
}

/** A step back of a server's clock: when (by the clock after it), and by how much, ms. */
export interface Step {
  server: string;
  at: number;
  backMs: number;
}

/** Returns the last step back of each server's clock. @throws errors of Redis */
export async function readSteps(db: Db): Promise<Step[]> {
  const steps = await Promise.all(
    db.nodes.primaries().map(async (server) => {
      const [at, backMs] = await db.redis.hmget(witnessOf(db, server) ?? '', 'turned_at', 'back_ms');
      return { server: db.nodes.nameOf(server), at: Number(at), backMs: Number(backMs) };
    }),
  );
  return steps.filter(({ backMs }) => backMs > 0);
}
