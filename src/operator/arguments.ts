/** Reads the arguments and options of commands. */
import { InvalidArgumentError } from 'commander';
import { type ClientToken, isClientToken, isNoticesClient, isNotificationId } from '../ids.js';

export function parseClientToken(text: string): ClientToken {
  if (!isClientToken(text)) {
    throw new InvalidArgumentError('A client token is 1 to 64 of A-Z a-z 0-9 _ -.');
  }
  return text;
}

/** Reads the token of any client, also of those that get notices. */
export function parseAnyClient(text: string): ClientToken {
  return isNoticesClient(text) ? text : parseClientToken(text);
}

export function parseNotificationId(text: string): string {
  if (!isNotificationId(text))
    throw new InvalidArgumentError('A notification id is msg_ followed by 22 characters.');
  return text;
}

const unitMs: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Reads `2026-11-21`, `2026-11-21T14:00:00Z`, or how long ago: `90s`, `15m`, `2h`, `3d`, `1w`. Returns ms. */
export function parseMoment(text: string): number {
  const ago = /^(\d+(?:\.\d+)?)([smhdw])$/.exec(text);
  if (ago) return Date.now() - Number(ago[1]) * (unitMs[ago[2] ?? ''] ?? 0);
  const atMs = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(atMs)) {
    throw new InvalidArgumentError('Give a date (2026-11-21T14:00:00Z) or how long ago (15m, 2h, 3d).');
  }
  return atMs;
}

/** Reads the most entries of a list. */
export function parseLimit(text: string): number {
  const limit = Number(text);
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > 10_000) {
    throw new InvalidArgumentError('Give a whole number from 1 to 10000.');
  }
  return limit;
}
