import type { Db } from '../connection/db.js';
import { clientScript, runScript } from '../connection/script.js';

/** Contract, section 5: one call in 5 s, bursts of 5. */
export const sendEveryMs = 5000;
export const sendBurst = 5;

/**
 * A bucket of tokens that holds `burst` and gets one every `every` ms, kept as the time at which it is full again
 * (GCRA, as in ATM's "generic cell rate algorithm").
 *
 * ARGV: 2 every, ms, 3 burst. Answers 0, or the ms after which there is a token.
 */
const takeSend = clientScript(`
local key, every = base .. 'send-limit', tonumber(ARGV[2])
local full_at = math.max(tonumber(redis.call('GET', key) or '0'), now)
local wait = full_at - (tonumber(ARGV[3]) - 1) * every - now
if wait > 0 then return wait end
redis.call('SET', key, full_at + every, 'PX', full_at + every - now)
return 0
`);

/**
 * Takes one of the client's calls that send something; over all of them and all processes.
 * @param sends so many at once, all or none: 1, or the whole burst. A bucket that gets one every 25 s and holds one is
 * the same as all 5 of a bucket that gets one every 5 s.
 * @returns 0, or how long the caller must wait, ms
 */
export async function takeSendCall(db: Db, clientToken: string, sends: 1 | 5 = 1): Promise<number> {
  return (await runScript(db, takeSend, clientToken, [sendEveryMs * sends, sendBurst / sends])) as number;
}
