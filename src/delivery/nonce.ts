import { randomBytes } from 'node:crypto';

const prefix = randomBytes(6).toString('base64url');
let count = 0;

/** Identifies one call of a script, and the attempts that it takes, over all processes. */
export function newNonce(): string {
  return `${prefix}${(count++).toString(36)}`;
}
