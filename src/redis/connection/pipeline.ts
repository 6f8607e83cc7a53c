import type { ChainableCommander, Redis } from 'ioredis';
import { RedisUnavailable } from './unavailable.js';

/** Returns the answers of commands sent together, in their order. @throws the first failed command's error */
export async function runPipeline(commands: ChainableCommander): Promise<unknown[]> {
  const answers = await commands.exec();
  if (!answers) throw new RedisUnavailable('the transaction was not run');
  return answers.map(([err, value]) => {
    if (err) throw err;
    return value;
  });
}

/** Bounds each answer of Redis, so that a long list delays no other command. */
export const pageSize = 500;

/** Reads hashes page by page, in the order of their keys. */
export async function readHashes(redis: Redis, keys: readonly string[]): Promise<Record<string, string>[]> {
  const found: Record<string, string>[] = [];
  for (let start = 0; start < keys.length; start += pageSize) {
    const commands = redis.pipeline();
    for (const key of keys.slice(start, start + pageSize)) commands.hgetall(key);
    found.push(...((await runPipeline(commands)) as Record<string, string>[]));
  }
  return found;
}

type Call = () => Promise<unknown>;
type Commands = Record<PropertyKey, (...args: unknown[]) => Promise<unknown>>;

/**
 * Returns a pipeline whose keys may be on any nodes of a cluster (the one of ioredis takes keys of one node). Its commands are
 * sent in one turn, and so share the writes to each node; each follows a moved slot on its own. Commands for different nodes
 * may run in any order.
 */
export function spreadPipeline(redis: Redis): ChainableCommander {
  const calls: Call[] = [];
  const commands = redis as unknown as Commands;
  const pipeline: ChainableCommander = new Proxy({} as ChainableCommander, {
    get(_, name) {
      if (name === 'exec') return () => Promise.all(calls.map(answered));
      if (name === 'length') return calls.length;
      // A caller who awaits the pipeline itself gets the pipeline.
      if (name === 'then') return undefined;
      return (...args: unknown[]) => {
        calls.push(() => (commands[name] as Commands[string]).apply(redis, args));
        return pipeline;
      };
    },
  });
  return pipeline;
}

async function answered(call: Call): Promise<[Error | null, unknown]> {
  try {
    return [null, await call()];
  } catch (err) {
    return [err as Error, undefined];
  }
}
