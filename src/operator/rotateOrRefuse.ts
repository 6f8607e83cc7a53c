import { createSecretBox } from '../redis/records/secretBox.js';
import { replaceSigningSecret, rotateSigningSecret } from '../redis/records/signingSecrets.js';
import type { Operator } from './operator.js';
import { Refused } from './refused.js';
import { moment, span } from './terminal/moment.js';

/**
 * Replaces a signing secret.
 * @param owner a client token, or `toldAccount` of an account
 * @param name of the owner, for the operator
 * @param now also ends every earlier secret
 * @returns until when the old one also signs, ISO 8601; undefined if it has ended
 * @throws Refused while ten earlier ones still sign
 */
export async function rotateOrRefuse(
  operator: Operator,
  { owner, name, now }: { owner: string; name: string; now: boolean },
): Promise<string | undefined> {
  const db = await operator.db();
  const box = createSecretBox(operator.config().SECRETS_KEY);
  if (now) {
    await replaceSigningSecret(db, box, owner);
    return undefined;
  }
  const done = await rotateSigningSecret(db, box, owner);
  if (done.outcome === 'rotated') return moment(done.previousValidUntilMs);
  throw new Refused(
    `Ten earlier signing secrets of ${name} still sign; the oldest ends in ${span(done.waitMs)}. ` +
      'With --now all of them end immediately.',
  );
}
