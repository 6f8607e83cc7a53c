import type { Db } from '../../src/redis/connection/db.js';

/** The work of Redis since its start. */
export interface RedisWork {
  /** CPU time of the process, user and system. */
  cpuSeconds: number;
  /** EVALSHA and EVAL. */
  scripts: number;
  scriptUs: number;
}

export async function redisWork(db: Db): Promise<RedisWork> {
  const [cpu, stats] = await Promise.all([db.redis.info('cpu'), db.redis.info('commandstats')]);
  const seconds = (name: string) => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(cpu)?.[1] ?? 0);
  const work = {
    cpuSeconds: seconds('used_cpu_user') + seconds('used_cpu_sys'),
    scripts: 0,
    scriptUs: 0,
  };
  for (const [, calls, us] of stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+),usec=(\d+)/g)) {
    work.scripts += Number(calls);
    work.scriptUs += Number(us);
  }
  return work;
}
