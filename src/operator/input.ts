/** The inputs of operations. Options of a command, parameters of a call and fields of a form are texts: each schema also takes these. */
import { z } from 'zod';
import { fits, text } from '../http/schemas.js';
import { clientTokenPattern, notificationIdPattern } from '../ids.js';
import { readTime } from '../times.js';

const texts: Record<string, unknown> = { true: true, false: false, on: true, '': false };

export const flag = (description: string) =>
  z
    .preprocess((given) => texts[String(given)] ?? given, z.boolean())
    .default(false)
    .describe(description);

/** A program that repeats a call that may have taken effect gives this. */
export const ifAbsent = flag('answer the one of this name or token if there is one, and create none');

/** The name of a person, for the audit. */
export const personName = z
  .string()
  .trim()
  .refine(fits(/^[^\p{Cc}\p{Cf}]{1,64}$/u), 'A name is one line of 1 to 64 characters.')
  .refine((given) => given !== 'unnamed', 'Give your name.');

export const nameText = text('Some Media');

/** The name of a customer or a site: pages link to it. */
export const newName = nameText
  .trim()
  .refine(
    fits(/^(?=.*(?![\p{DI}\u2800])[\p{L}\p{N}\p{P}\p{S}])\P{Cc}{1,128}$/u),
    'A name has 1 to 128 characters, some of them visible, none of them a control character.',
  );

const tokenMessage = 'A client token is 1 to 64 of A-Z a-z 0-9 _ -.';
export const clientToken = text('SITE0042').regex(clientTokenPattern, tokenMessage);
/** The token of any client, including clients of notices. */
export const anyClient = text('SITE0042').regex(/^(notices:)?[A-Za-z0-9_-]{1,64}$/, tokenMessage);
export const notificationId = text('msg_3q2-7wABAgMEBQYHCAkKCw').regex(
  notificationIdPattern,
  'A notification id is msg_ followed by 22 characters.',
);
export const filledText = nameText.min(1, 'must not be empty');
export const accountId = text('acc_7Qd2mVx0aB1c').min(1, 'must not be empty');

/** A whole number, or one of the words. */
export const wholeNumber = (message: string, { from = 1, to = Number.MAX_SAFE_INTEGER } = {}) =>
  z.preprocess(
    (given) => (/^\d{1,15}$/.test(String(given)) ? Number(given) : given),
    z
      .int(message)
      .min(from, message)
      .max(to, message)
      .meta({ examples: [from] }),
  );

const unitMs: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Returns the ms of `90s`, `15m`, `2h`, `3d`, `1w`; undefined for another text. */
export function spanMs(text: string): number | undefined {
  const [, n, unit] = /^(\d+(?:\.\d+)?)([smhdw])$/.exec(text) ?? [];
  return unit === undefined ? undefined : Number(n) * (unitMs[unit] ?? 0);
}

/** A time: `2026-11-21` (UTC), `2026-11-21T14:00:00Z`, or how long ago: `90s`, `15m`, `2h`, `3d`, `1w`. Its output is ms. */
export const when = text('2026-11-21T14:00:00Z').transform((given, { addIssue }) => {
  const ago = spanMs(given);
  if (ago !== undefined) return Math.max(0, Date.now() - ago);
  const read = readTime(given);
  if (typeof read === 'number') return read;
  addIssue(`It ${read}. Or say how long ago: 15m, 2h, 3d.`);
  return z.NEVER;
});

/** As `when`, but its output is the text. */
export const whenText = text('2026-11-21T14:00:00Z').superRefine((given, { addIssue }) => {
  for (const { message } of when.safeParse(given).error?.issues ?? []) addIssue(message);
});

const inMs = (at: string | number): number => (typeof at === 'number' ? at : when.parse(at));

type Times = { since?: number | string; until?: number | string };
/** Checks what the API checks too. */
export const inOrder = <Schema extends z.ZodType<Times>>(schema: Schema): Schema =>
  schema.refine(({ since = 0, until = Date.now() }) => inMs(since) <= inMs(until), {
    error: ({ input }) =>
      `The time of --since must not be later than ${(input as Times).until ? 'that of --until' : 'now'}.`,
  });

export const choice = <const Words extends readonly [string, ...string[]]>(words: Words) =>
  z.enum(words, `Allowed choices are ${words.join(', ')}.`);
