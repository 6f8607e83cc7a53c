import { assetSlot } from '../ids.js';
import type { Db } from './db.js';
import { knownLua } from './notificationLua.js';
import { clientScript, runScript } from './script.js';

/** Which of a client's claims (their indexes) Redis does not know of: it has gone back to a moment before them. */
export async function lostClaims(
  db: Db,
  clientToken: string,
  claims: readonly { platformId: string; claim: number }[],
): Promise<number[]> {
  if (claims.length === 0) return [];
  const wanted = claims.flatMap(({ platformId, claim }) => {
    const slot = assetSlot(platformId);
    return [slot.bucket, slot.field, claim];
  });
  return (await runScript(db, lostScript, clientToken, wanted)) as number[];
}

// ARGV from 2 on, for each claim: bucket, field, number.
const lostScript = clientScript(
  `
local lost = {}
for i = 2, #ARGV, 3 do
  if read_known(ARGV[i], ARGV[i + 1]) < tonumber(ARGV[i + 2]) then lost[#lost + 1] = (i - 2) / 3 end
end
return lost
`,
  knownLua,
);
