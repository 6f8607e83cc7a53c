import { randomBytes } from 'node:crypto';

const prefix = randomBytes(6).toString('base64url');
let count = 0;

/** Names one call of a script, and the attempts that it takes, among those of all processes. */
export function newNonce(): string {
  return `${prefix}${(count++).toString(36)}`;
}
