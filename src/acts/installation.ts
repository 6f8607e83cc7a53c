/** The whole installation: who may come in as an operator, the key of its secrets, its store. */
import { hostInUrl } from '../addresses.js';
import { refused } from '../http/apiError.js';
import { acceptEmpty as acceptRecord } from '../redis/connection/mark.js';
import { noteNewestKey } from '../redis/records/installation.js';
import {
  createOperatorToken,
  endPersonSessions,
  listOperatorTokens,
  type Person,
  personSessions,
  type Role,
  revokeOperatorToken,
} from '../redis/records/operatorAccess.js';
import { reencryptSigningSecrets } from '../redis/records/secrets.js';
import { act, admin } from './act.js';
import { presentTime } from './present.js';

/** Makes a token with which a program signs in; only this answer has it. @param input.expires after how many ms it is no longer valid */
export const createToken = act(
  'token create',
  admin,
  async (actor, { name, role, expires: forMs }: { name: string; role: Role; expires?: number }, admit) => {
    const expires_at = presentTime(forMs && Date.now() + forMs);
    const token = await actor.change((db) =>
      createOperatorToken(db, { name, role, forMs }, () =>
        admit({ target: name, after: { role, expires_at } }),
      ),
    );
    if (token === undefined)
      throw refused(`There is a token ${name}: revoke it first, or choose another name`);
    return { name, role, token, expires_at };
  },
);

export const revokeToken = act('token revoke', admin, async (actor, { name }: { name: string }, admit) => {
  const all = await listOperatorTokens(await actor.db());
  if (!all.some((token) => token.name === name)) throw refused(`There is no token ${name}`);
  await admit({ target: name, after: { revoked: true } });
  await actor.change((db) => revokeOperatorToken(db, name));
  return { name, revoked: true };
});

/** Makes a link that opens the desk once, for a person of this name. */
export const makeDeskLink = act('desk', admin, async (actor, to: Pick<Person, 'name' | 'role'>, admit) => {
  const { name, role } = to;
  await admit({ target: name, after: { role } });
  const person = { name, role, how: 'link' as const, token: actor.token };
  const { address, expiresAtMs } = await personSessions.createLink(await actor.db(), person);
  const { OPERATOR_URL, ADMIN_HOST, ADMIN_PORT } = actor.config();
  const { origin } = new URL(OPERATOR_URL ?? `http://${hostInUrl(ADMIN_HOST)}:${ADMIN_PORT}`);
  return { role, url: origin + address, expires_at: presentTime(expiresAtMs) };
});

export const endDesk = act('desk end', admin, async (actor, _: object, admit) => {
  await admit({ target: 'desk' });
  await actor.change(endPersonSessions);
  return { ended: true };
});

/**
 * Encrypts all secrets with the first key of SECRETS_KEY; what is encrypted with a key that is `lost` is given up. The entry in the audit
 * follows: no secret is another.
 */
export const reencrypt = act(
  'secrets reencrypt',
  admin,
  async (actor, { lost }: { lost?: string | undefined }, admit) => {
    const keys = actor.config().SECRETS_KEY;
    const key_id = keys?.[0]?.id;
    if (key_id === undefined) throw refused('SECRETS_KEY is not set: there is no key to encrypt with');
    if (lost !== undefined) {
      await admit({ target: key_id, after: { lost } });
      await actor.change((db) => noteNewestKey(db, keys, lost));
    }
    const counts = await reencryptSigningSecrets(await actor.db(), await actor.secretBox());
    const { reencrypted, unchanged, unreadable } = counts;
    await admit({ target: key_id, after: { reencrypted, unreadable } });
    if (unreadable.length > 0)
      throw refused(
        `${reencrypted} are now encrypted with the key "${key_id}". SECRETS_KEY has no key for the secrets of: ${unreadable.join(', ')}`,
      );
    await actor.change((db) => noteNewestKey(db, keys));
    return { key_id, reencrypted, unchanged };
  },
);

/** Says that the store, which has lost its data, is meant to be empty: only then it takes the entry. */
export const acceptEmpty = act('store accept-empty', admin, async (actor, _: object, admit) => {
  if (!(await actor.change(acceptRecord))) throw refused('The store has not lost its data');
  await admit({ target: 'store' });
  return { accepted: true };
});
