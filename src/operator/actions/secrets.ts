import type { ClientToken } from '../../ids.js';
import { reencryptSigningSecrets } from '../../redis/records/reencrypt.js';
import { createSecretBox } from '../../redis/records/secretBox.js';
import type { Operator } from '../operator.js';
import { Refused } from '../refused.js';
import { requireClient } from '../requireClient.js';
import { rotateOrRefuse } from '../rotateOrRefuse.js';

export async function secretsReencrypt(operator: Operator): Promise<void> {
  const keys = operator.config().SECRETS_KEY;
  const [newest] = keys ?? [];
  if (newest === undefined) throw new Refused('SECRETS_KEY is not set: there is no key to encrypt with.');
  const db = await operator.db();
  const counts = await reencryptSigningSecrets(db, createSecretBox(keys));
  await operator.record({
    what: 'secrets reencrypt',
    target: newest.id,
    before: null,
    after: { reencrypted: counts.reencrypted, unreadable: counts.unreadable },
  });
  if (counts.unreadable.length > 0) {
    throw new Refused(
      `${counts.reencrypted} are now encrypted with the key "${newest.id}". SECRETS_KEY has no key for the secrets of: ` +
        counts.unreadable.join(', '),
    );
  }
  operator.answer(
    { key_id: newest.id, reencrypted: counts.reencrypted, unchanged: counts.unchanged },
    () =>
      `${counts.reencrypted} signing secrets and request headers are now encrypted with the key "${newest.id}"; ` +
      `${counts.unchanged} were already.`,
  );
}

export async function secretsRotate(
  operator: Operator,
  token: ClientToken,
  { now = false }: { now?: boolean },
): Promise<void> {
  await requireClient(operator, token);
  const until = await rotateOrRefuse(operator, token, now);
  await operator.record({
    what: 'secrets rotate',
    target: token,
    before: null,
    after: { old_ones_end: now ? 'now' : 'in 24 h' },
  });
  operator.answer(
    { client_token: token, previous_valid_until: until ?? null },
    () =>
      `${token} has a new signing secret; its publisher reads it with GET /push_notifications/signing_secret. ` +
      (now ? 'Every earlier one has ended.' : 'The old one also signs for 24 h.'),
  );
}
