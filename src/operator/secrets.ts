/** Encrypts and rotates signing secrets. */
import { z } from 'zod';
import { text, time, whole } from '../api/reference/schemas.js';
import { isNoticesClient } from '../ids.js';
import { createSecretBox } from '../redis/records/secretBox.js';
import { reencryptSigningSecrets, rotateSigningSecret } from '../redis/records/secrets.js';
import { anyClient, flag } from './input.js';
import { answer, operation, Refused, requireClient } from './operation.js';
import { moment, span } from './terminal.js';

export const secretsReencrypt = operation({
  command: 'secrets reencrypt',
  does: 'encrypt all signing secrets and request headers with the first key of SECRETS_KEY',
  role: 'admin',
  input: z.object({}),
  answers: z.object({ key_id: text('k2'), reencrypted: whole(12), unchanged: whole(0) }),
  async run(operator) {
    const keys = operator.config().SECRETS_KEY;
    const key_id = keys?.[0]?.id;
    if (key_id === undefined) throw new Refused('SECRETS_KEY is not set: there is no key to encrypt with.');
    const counts = await reencryptSigningSecrets(await operator.db(), createSecretBox(keys));
    const { reencrypted, unchanged, unreadable } = counts;
    await operator.record('secrets reencrypt', key_id, null, { reencrypted, unreadable });
    if (unreadable.length > 0) {
      throw new Refused(
        `${reencrypted} are now encrypted with the key "${key_id}". SECRETS_KEY has no key for the secrets of: ` +
          unreadable.join(', '),
      );
    }
    return answer(
      { key_id, reencrypted, unchanged },
      `${reencrypted} signing secrets and request headers are now encrypted with the key "${key_id}"; ` +
        `${unchanged} were already.`,
    );
  },
});

export const secretsRotate = operation({
  command: 'secrets rotate <token>',
  does: "replace a client's signing secret; the old one also signs for 24 h",
  role: 'admin',
  input: z.object({
    client_token: anyClient,
    now: flag('the old one and every earlier one end immediately'),
  }),
  answers: z.object({ client_token: anyClient, previous_valid_until: time().nullable() }),
  async run(operator, { client_token, now }) {
    await requireClient(operator, client_token);
    const box = createSecretBox(operator.config().SECRETS_KEY);
    const rotated = await operator.change((db) => rotateSigningSecret(db, box, client_token, { now }));
    if (rotated.outcome === 'too_many') {
      throw new Refused(
        `Ten earlier signing secrets of ${client_token} still sign; the oldest ends in ${span(rotated.waitMs)}. ` +
          'With --now all of them end immediately.',
      );
    }
    await operator.record('secrets rotate', client_token, null, { old_ones_end: now ? 'now' : 'in 24 h' });
    const call = isNoticesClient(client_token)
      ? '/notices/signing_secret'
      : '/push_notifications/signing_secret';
    const old = now ? 'Every earlier one has ended.' : 'The old one also signs for 24 h.';
    return answer(
      { client_token, previous_valid_until: moment(rotated.previousValidUntilMs) },
      `${client_token} has a new signing secret; its account reads it with GET ${call}. ${old}`,
    );
  },
});
