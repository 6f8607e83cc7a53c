import { createHmac } from 'node:crypto';

/**
 * Signs symmetrically, by Standard Webhooks 1.0.0
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
 * @param secrets the current secret first, then previous ones that are still valid; each signs
 * @param id `webhook-id`
 * @param timestampSeconds `webhook-timestamp`
 * @returns the value of `webhook-signature`: `v1,<base64>` for each secret, separated by spaces
 */
export function sign(secrets: readonly string[], id: string, timestampSeconds: number, body: string): string {
  const content = `${id}.${timestampSeconds}.${body}`;
  let signatures = '';
  for (const secret of secrets) {
    const digest = createHmac('sha256', keyOf(secret)).update(content, 'utf8').digest('base64');
    signatures += signatures === '' ? `v1,${digest}` : ` v1,${digest}`;
  }
  return signatures;
}

const prefix = 'whsec_';

/** Decoded keys of recently used secrets; emptied when full, since decoding is cheap. */
const keys = new Map<string, Buffer>();
const maxKeys = 4_096;

function keyOf(secret: string): Buffer {
  let key = keys.get(secret);
  if (key === undefined) {
    key = Buffer.from(secret.startsWith(prefix) ? secret.slice(prefix.length) : secret, 'base64');
    if (key.length === 0) throw new Error('a signing secret is empty');
    if (keys.size >= maxKeys) keys.clear();
    keys.set(secret, key);
  }
  return key;
}
