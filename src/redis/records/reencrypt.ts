import type { Db } from '../connection/db.js';
import { runScript } from '../connection/library.js';
import { type SecretBox, SecretUnreadable } from './secretBox.js';
import { useOfField } from './signingSecrets.js';

export interface Reencrypted {
  /** Secrets that are now encrypted with the newest key and were not before. */
  reencrypted: number;
  /** Secrets that already were. */
  unchanged: number;
  /** Clients with a secret whose key is missing. */
  unreadable: string[];
}

/**
 * Encrypts every signing secret, also previous ones, and every request header with the newest key of `SECRETS_KEY`. Safe to
 * repeat.
 */
export async function reencryptSigningSecrets(db: Db, box: SecretBox): Promise<Reencrypted> {
  const counts: Reencrypted = { reencrypted: 0, unchanged: 0, unreadable: [] };
  const clientTokens = (await db.redis.smembers(db.global.clients)).sort();
  for (const clientToken of clientTokens) {
    try {
      await reencryptClient(db, box, clientToken, counts);
    } catch (err) {
      if (!(err instanceof SecretUnreadable)) throw err;
      counts.unreadable.push(clientToken);
    }
  }
  return counts;
}

async function reencryptClient(
  db: Db,
  box: SecretBox,
  clientToken: string,
  counts: Reencrypted,
): Promise<void> {
  const fields = await db.redis.hgetall(db.client(clientToken).signingSecrets);
  for (const [field, sealed] of Object.entries(fields)) {
    if (!box.isOutdated(sealed)) counts.unchanged++;
    else {
      const of = { clientToken, use: useOfField(field) };
      const renewed = box.seal(box.open(sealed, of), of);
      counts.reencrypted += Number(await runScript(db, 'reencrypt', clientToken, [field, sealed, renewed]));
    }
  }
}
