/** Encrypts and rotates signing secrets. */
import { type ClientToken, isNoticesClient } from '../ids.js';
import { createSecretBox } from '../redis/records/secretBox.js';
import { reencryptSigningSecrets, rotateSigningSecret } from '../redis/records/secrets.js';
import { type AddCommand, type Operator, Refused, requireClient } from './session.js';
import { moment, span } from './terminal.js';

export function addSecretsCommands(add: AddCommand): void {
  const all = 'encrypt all signing secrets and request headers with the first key of SECRETS_KEY';
  add('reencrypt', all, reencrypt);
  const one = "replace a client's signing secret; the old one also signs for 24 h";
  add('rotate <token>', one, rotate).option('--now', 'the old one and every earlier one end immediately');
}

async function reencrypt(operator: Operator) {
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
  operator.answer(
    { key_id, reencrypted, unchanged },
    `${reencrypted} signing secrets and request headers are now encrypted with the key "${key_id}"; ` +
      `${unchanged} were already.`,
  );
}

async function rotate(operator: Operator, token: ClientToken, { now = false }: { now?: boolean }) {
  await requireClient(operator, token);
  const box = createSecretBox(operator.config().SECRETS_KEY);
  const rotated = await operator.change((db) => rotateSigningSecret(db, box, token, { now }));
  if (rotated.outcome === 'too_many') {
    throw new Refused(
      `Ten earlier signing secrets of ${token} still sign; the oldest ends in ${span(rotated.waitMs)}. ` +
        'With --now all of them end immediately.',
    );
  }
  await operator.record('secrets rotate', token, null, { old_ones_end: now ? 'now' : 'in 24 h' });
  const call = isNoticesClient(token) ? '/notices/signing_secret' : '/push_notifications/signing_secret';
  const old = now ? 'Every earlier one has ended.' : 'The old one also signs for 24 h.';
  operator.answer(
    { client_token: token, previous_valid_until: moment(rotated.previousValidUntilMs) },
    `${token} has a new signing secret; its account reads it with GET ${call}. ${old}`,
  );
}
