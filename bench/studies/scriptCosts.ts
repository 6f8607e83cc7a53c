import type { Db } from '../../src/redis/connection/db.js';
import { processUsage } from '../processUsage.js';

/** A way to have events claimed, taken and settled. */
export interface Way {
  name: string;
  /** Events of one client at a time. */
  group: number;
  /** @param numbers of the events, each used once */
  deliver(clientToken: string, numbers: readonly number[]): Promise<void>;
}

/** Of each round, us an event. */
export interface ScriptCost {
  name: string;
  /** Of the server's process: what comes in and goes out, and its log, too. */
  cpuUs: number[];
  /** Of EVALSHA alone. */
  scriptUs: number[];
  /** An event. */
  scripts: number;
  /** Commands that the scripts call, an event. */
  commands: number;
}

export interface ScriptCostsOptions {
  db: Db;
  pid: number;
  ways: readonly Way[];
  clientTokens: readonly string[];
  events: number;
  rounds: number;
  lanes: number;
  say(line: string): void;
}

/** Has each way deliver as many events in turn, round by round; the first round of each warms up and does not count. */
export async function scriptCosts(options: ScriptCostsOptions): Promise<ScriptCost[]> {
  const { db, pid, ways, events, rounds, say } = options;
  const costs = ways.map(
    ({ name }): ScriptCost => ({ name, cpuUs: [], scriptUs: [], scripts: 0, commands: 0 }),
  );
  const numbers = { next: 0 };
  for (let round = 0; round <= rounds; round++) {
    for (const [i, way] of ways.entries()) {
      const cost = costs[i] as ScriptCost;
      await db.redis.config('RESETSTAT');
      const before = processUsage(pid).cpuMs;
      await deliverAll(options, way, numbers);
      const cpuUs = ((processUsage(pid).cpuMs - before) * 1000) / events;
      const { evalsha, inside } = await commandStats(db);
      if (round === 0) continue;
      cost.cpuUs.push(cpuUs);
      cost.scriptUs.push(evalsha.us / events);
      cost.scripts = evalsha.calls / events;
      cost.commands = inside / events;
      say(`${way.name}: ${cpuUs.toFixed(1)} us of CPU, ${(evalsha.us / events).toFixed(1)} in scripts`);
    }
  }
  return costs;
}

async function deliverAll(
  { clientTokens, events, lanes }: ScriptCostsOptions,
  { group, deliver }: Way,
  numbers: { next: number },
): Promise<void> {
  const last = numbers.next + events;
  let turn = 0;
  const lane = async () => {
    while (numbers.next < last) {
      const first = numbers.next;
      numbers.next = Math.min(first + group, last);
      const clientToken = clientTokens[turn++ % clientTokens.length] as string;
      await deliver(
        clientToken,
        Array.from({ length: numbers.next - first }, (_, i) => first + i),
      );
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

/** Since RESETSTAT: EVALSHA, and all that scripts called. */
async function commandStats(db: Db): Promise<{ evalsha: { calls: number; us: number }; inside: number }> {
  const evalsha = { calls: 0, us: 0 };
  let inside = 0;
  for (const [, name, calls, us] of (await db.redis.info('commandstats')).matchAll(
    /cmdstat_([^:]+):calls=(\d+),usec=(\d+)/g,
  )) {
    if (name === 'evalsha') Object.assign(evalsha, { calls: Number(calls), us: Number(us) });
    else if (name !== 'config|resetstat' && name !== 'info' && name !== 'eval') inside += Number(calls);
  }
  return { evalsha, inside };
}
