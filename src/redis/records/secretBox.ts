/**
 * Encrypts secrets at rest: AES-256-GCM, `<key id>:<base64 of nonce, tag, ciphertext>`. The first key of
 * `SECRETS_KEY` encrypts, every key decrypts. Without a key a secret is stored in plain text, marked `plain:`.
 *
 * A secret is sealed for an owner, its associated data, which is one client and one use: whoever can write Redis, but has no key, cannot
 * make another client's secret sign, or send a signing secret as a header.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Config } from '../../config.js';
import { except } from '../../promises.js';

export type SecretBox = ReturnType<typeof createSecretBox>;

export class SecretUnreadable extends Error {
  override name = 'SecretUnreadable';
}

/** Catches that SECRETS_KEY is not that of the installation. */
export const unlessUnreadable = except((err) => err instanceof SecretUnreadable);

const nonceBytes = 12;
const tagBytes = 16;

export const isPlain = (sealed: string): boolean => sealed.startsWith('plain:');

export function createSecretBox(keys: Config['SECRETS_KEY']) {
  const newest = keys?.[0];

  return {
    seal(secret: string, owner: string): string {
      if (!newest) return `plain:${secret}`;
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', newest.key, nonce);
      cipher.setAAD(Buffer.from(owner));
      const text = Buffer.concat([cipher.update(secret, 'utf8'), cipher.final()]);
      return `${newest.id}:${Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64')}`;
    },
    /** True if another key than the first encrypted the value: that key is still needed. */
    isOutdated: (sealed: string): boolean => !sealed.startsWith(`${newest?.id ?? 'plain'}:`),
    /** @throws SecretUnreadable if its key is missing, or it was sealed for something else */
    open(sealed: string, owner: string): string {
      const colon = sealed.indexOf(':');
      const id = sealed.slice(0, colon);
      if (id === 'plain') return sealed.slice(colon + 1);
      const key = keys?.find((k) => k.id === id);
      if (!key) throw new SecretUnreadable(`SECRETS_KEY has no key "${id}", which encrypted a secret`);
      const bytes = Buffer.from(sealed.slice(colon + 1), 'base64');
      try {
        const decipher = createDecipheriv('aes-256-gcm', key.key, bytes.subarray(0, nonceBytes));
        decipher.setAAD(Buffer.from(owner));
        decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes));
        const text = decipher.update(bytes.subarray(nonceBytes + tagBytes), undefined, 'utf8');
        return text + decipher.final('utf8');
      } catch {
        throw new SecretUnreadable(
          `key "${id}" of SECRETS_KEY does not decrypt a secret stored under that id`,
        );
      }
    },
  };
}
