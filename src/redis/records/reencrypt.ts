import type { Db } from '../connection/db.js';
import { toldAccount } from '../connection/keys.js';
import { runScript } from '../connection/runScript.js';
import { script } from '../connection/script.js';
import { type SecretBox, SecretUnreadable } from './secretBox.js';

export interface Reencrypted {
  /** Secrets that are now encrypted with the newest key and were not before. */
  reencrypted: number;
  /** Secrets that already were. */
  unchanged: number;
  /** Clients, and accounts with notices (`account:<id>`), with a secret whose key is missing. */
  unreadable: string[];
}

const replace = script('reencrypt');

/**
 * Encrypts every signing secret, also previous ones, and every request header with the newest key of `SECRETS_KEY`. Safe to
 * repeat.
 * @param told called before each client and account with the number done and the number of all
 */
export async function reencryptSigningSecrets(
  db: Db,
  box: SecretBox,
  told: (done: number, all: number) => void = () => undefined,
): Promise<Reencrypted> {
  const counts: Reencrypted = { reencrypted: 0, unchanged: 0, unreadable: [] };
  const clientTokens = (await db.redis.smembers(db.global.clients)).sort();
  const accounts = (await db.redis.smembers(db.global.accounts)).sort().map(toldAccount);
  const owners = [...clientTokens, ...accounts];
  for (const [done, owner] of owners.entries()) {
    told(done, owners.length);
    try {
      await reencryptOwner(db, box, owner, counts);
    } catch (err) {
      if (!(err instanceof SecretUnreadable)) throw err;
      counts.unreadable.push(owner);
    }
  }
  return counts;
}

async function reencryptOwner(db: Db, box: SecretBox, owner: string, counts: Reencrypted): Promise<void> {
  const fields = await db.redis.hgetall(db.client(owner).signingSecrets);
  for (const [field, sealed] of Object.entries(fields)) {
    if (!box.isOutdated(sealed)) counts.unchanged++;
    else {
      const renewed = box.seal(box.open(sealed));
      counts.reencrypted += Number(await runScript(db, replace, owner, [field, sealed, renewed]));
    }
  }
}
