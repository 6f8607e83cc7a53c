import type { ChainableCommander } from 'ioredis';
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
