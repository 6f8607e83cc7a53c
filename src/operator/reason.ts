import { ConfigError } from '../config.js';
import { ResolverUnavailable, TargetRefused } from '../outgoing/target.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { ClientTokenTaken, UnknownAccount, UnknownClient } from '../redis/records/refusals.js';
import { SecretUnreadable } from '../redis/records/secretBox.js';
import { Refused } from './operator.js';

/** Returns why a command was not carried out, for the person who typed it. */
export function reasonOf(err: unknown): string {
  if (err instanceof Refused || err instanceof ConfigError) return err.message;
  if (err instanceof Error && spoken.some((kind) => err instanceof kind)) return sentence(err.message);
  if (isRedisUnavailable(err))
    return 'Redis does not answer or is full; the command may or may not have taken effect.';
  return err instanceof Error ? `${err.name}: ${err.message}` : String(err);
}

/** Errors of the store and the guard whose message is meant for people. */
const spoken = [
  TargetRefused,
  ResolverUnavailable,
  UnknownAccount,
  UnknownClient,
  ClientTokenTaken,
  SecretUnreadable,
];

function sentence(message: string): string {
  return message.charAt(0).toUpperCase() + message.slice(1);
}
