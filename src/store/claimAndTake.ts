import { type Arrived, type Claim, claimArgumentCount, claimArguments, claimLua, claimOf } from './claim.js';
import type { Db } from './db.js';
import { endpointLua } from './endpointLua.js';
import { type Look, lookLua, lookOf } from './look.js';
import { knownLua, notificationLua } from './notificationLua.js';
import { clientScript, runScript, text } from './script.js';
import { type Take, type TakeRequest, takeLua, takeOf } from './take.js';

/** What became of an event: its claim, and where that is its own and it is live, whether it may be sent now. */
export interface ClaimedAndTaken {
  /** `not_new`: it was looked at now, and there is nothing to claim. */
  claim: Claim | { kind: 'not_new' };
  take?: Take;
  /** Where it had not been looked at before. */
  look?: Look;
}

/**
 * Claims a client's events, then takes what of them is live, in one round trip. All are claimed before one is taken:
 * of two events of one asset only the newer is sent. What has not been looked at is looked at right before its claim.
 *
 * ARGV: 2 lease ms, 3 default in-flight bound, 4 `lostSince` or nothing, then of each event what `claim_event` takes
 */
const claimAndTake = clientScript(
  `
local answers, lost_since = {}, tonumber(ARGV[4])
local function look_and_claim(at)
  local looked_up, looked = tonumber(ARGV[at + 7]), nil
  if not looked_up then
    looked = look_at_event(ARGV[at], ARGV[at + 1], ARGV[at + 2], false, ARGV[at + 3], ARGV[at + 5], ARGV[at + 6])
    if looked[1] == 'claimed' and lost_since then looked = {'new', looked[2], looked[3] - 1} end
    if looked[1] ~= 'new' then return {'not_new', false, false, looked} end
    looked_up = looked[3]
  end
  local claimed = claim_event(at, looked_up)
  return {claimed[1], claimed[2] or false, false, looked}
end
local taken = false
local asked, failure = pcall(function()
  for at = 5, #ARGV, ${claimArgumentCount} do answers[#answers + 1] = look_and_claim(at) end
  for i, claimed in ipairs(answers) do
    local at = 5 + (i - 1) * ${claimArgumentCount}
    if (claimed[1] == 'claimed' or claimed[1] == 'mine') and ARGV[at + 8] == 'live' then
      claimed[3] = take_attempt(ARGV[at + 5], ARGV[at + 4], 'first', tonumber(ARGV[2]), tonumber(ARGV[3]), 0,
        claimed[2], ARGV[at], ARGV[at + 1], lost_since)
      taken = taken or claimed[3][1] == 'taken'
    end
  end
end)
-- Whatever happens above: what is owed without a time at which it is due would wait for ever.
write_due()
if not asked then error(failure) end
return {shared.url or '', taken and signing_secrets() or {}, answers}
`,
  endpointLua,
  notificationLua,
  knownLua,
  lookLua,
  claimLua,
  takeLua,
);

/**
 * @param lostSince when the first of this caller's calls for these events was sent whose answer it did not get (ms): what
 * that has claimed and taken is taken over
 */
export async function claimAndTakeEvents(
  db: Db,
  clientToken: string,
  events: readonly Arrived[],
  bounds: Pick<TakeRequest, 'leaseMs' | 'maxInFlight'>,
  lostSince?: number,
): Promise<ClaimedAndTaken[]> {
  const [url, secrets, answers] = (await runScript(db, claimAndTake, clientToken, [
    bounds.leaseMs,
    bounds.maxInFlight,
    lostSince ?? '',
    ...events.flatMap(claimArguments),
  ])) as [Buffer, Buffer[], unknown[][]];
  return answers.map(([kind, number, take, look]) => ({
    claim: text(kind) === 'not_new' ? { kind: 'not_new' } : claimOf([kind, number]),
    ...(Array.isArray(take) ? { take: takeOf(take, text(url), secrets) } : {}),
    ...(Array.isArray(look) ? { look: lookOf(look) } : {}),
  }));
}
