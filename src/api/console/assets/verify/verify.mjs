import { createHmac, timingSafeEqual } from 'node:crypto';

/**
 * @param headers of the request, by their names in lower case
 * @param body the bytes of the request's body, before anything parses them
 * @param secret the signing secret, whsec_...
 */
export function isGenuine(headers, body, secret) {
  const id = headers['webhook-id'] ?? '';
  const timestamp = headers['webhook-timestamp'] ?? '';
  // Older than 5 minutes: somebody may have kept it, to send it again.
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) < 300)) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const wanted = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
  return (headers['webhook-signature'] ?? '').split(' ').some((signature) => {
    const given = Buffer.from(signature.replace(/^v1,/, ''), 'base64');
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
}
