import { createSecretBox } from '../redis/records/secretBox.js';
import { replaceSigningSecret, rotateSigningSecret } from '../redis/records/signingSecrets.js';
import type { Operator } from './operator.js';
import { Refused } from './refused.js';
import { moment, span } from './terminal/moment.js';

/**
 * Replaces a signing secret.
 * @param now also ends every earlier secret
 * @returns until when the old one also signs, ISO 8601; undefined if it has ended
 * @throws Refused while ten earlier ones still sign
 */
export async function rotateOrRefuse(
  operator: Operator,
  clientToken: string,
  now: boolean,
): Promise<string | undefined> {
  const box = createSecretBox(operator.config().SECRETS_KEY);
  if (now) {
    await operator.change((db) => replaceSigningSecret(db, box, clientToken));
    return undefined;
  }
  const done = await operator.change((db) => rotateSigningSecret(db, box, clientToken));
  if (done.outcome === 'rotated') return moment(done.previousValidUntilMs);
  throw new Refused(
    `Ten earlier signing secrets of ${clientToken} still sign; the oldest ends in ${span(done.waitMs)}. ` +
      'With --now all of them end immediately.',
  );
}
