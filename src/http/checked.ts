/** Checks a caller's input by its schema, and says in words what is wrong with it. */
import { z } from 'zod';
import { badParameter } from './apiError.js';
import type { Places } from './query.js';

/**
 * Returns a caller's input that fits its schema; an absent one counts as `{}`.
 * @param places of the members that belong elsewhere
 * @throws ApiError 400 naming every problem
 */
export function checked<T>(schema: z.ZodType<T>, input: unknown, places?: Places): T {
  const result = checkInput(schema, input === undefined ? {} : input, '', places);
  if ('problem' in result)
    throw badParameter(input === undefined ? `${noJson}; ${result.problem}` : result.problem);
  return result.data;
}

export const noJson = 'The request has no body, or an empty one: send JSON';

/**
 * Checks a caller's JSON.
 * @param at the path of the input in the body, such as `events[3]`; empty: the input is the body
 * @returns the data, or the problems in words, each `<path>: <what must change>`
 */
export function checkInput<T>(
  schema: z.ZodType<T>,
  input: unknown,
  at = '',
  places: Places = new Map(),
): { data: T } | { problem: string } {
  const parsed = schema.safeParse(input, { error: inOurWords(schema, places) });
  if (parsed.success) return { data: parsed.data };
  const problems = parsed.error.issues.map(({ path, message }) => `${formatPath(at, path)}: ${message}`);
  return { problem: shortened(problems.join('; ')) };
}

/** Replaces the library's own messages, which name its types and operators. A schema's own messages stay. */
const inOurWords =
  (schema: z.ZodType, places: Places) =>
  (issue: z.core.$ZodRawIssue): string => {
    const orNot = issue.input === null && isOptional(schema, issue.path) ? ', or leave it out' : '';
    switch (issue.code) {
      case 'invalid_type':
        return issue.input === undefined
          ? 'is missing'
          : `must be ${types[issue.expected] ?? 'of another type'}${orNot}`;
      case 'unrecognized_keys':
        return describeUnknown(issue.keys, places);
      case 'invalid_value':
        return `must be ${issue.values.join(' or ')}${orNot}`;
      case 'too_small':
        return typeof issue.input === 'number' ? `must be at least ${issue.minimum}` : 'must not be empty';
      case 'too_big':
        if (typeof issue.input === 'number') return `must be at most ${issue.maximum}`;
        return `must have at most ${issue.maximum} ${issue.origin === 'string' ? 'characters' : 'items'}`;
      default:
        return 'is not valid';
    }
  };

function describeUnknown(keys: readonly string[], places: Places): string {
  const elsewhere = keys.filter((key) => places.has(key)).map((key) => `"${key}" ${places.get(key)}`);
  const unknown = keys.filter((key) => !places.has(key)).map((key) => `"${key}"`);
  if (unknown.length > 0) elsewhere.unshift(`${unknown.join(', ')} is unknown`);
  return `the member ${elsewhere.join(', ')}`;
}

function isOptional(schema: z.ZodType, path: readonly PropertyKey[] = []): boolean {
  const [name, ...rest] = path;
  const member: unknown = schema instanceof z.ZodObject && schema.shape[String(name)];
  if (!(member instanceof z.ZodType)) return false;
  return rest.length > 0 ? isOptional(member, rest) : member.safeParse(undefined).success;
}

const types: Record<string, string> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

function formatPath(at: string, path: readonly PropertyKey[]): string {
  let text = at;
  for (const part of path)
    text += typeof part === 'number' ? `[${part}]` : `${text === '' ? '' : '.'}${String(part)}`;
  return text === '' ? 'body' : text;
}

const atMost = 300;

/** Shortens a message that contains a stranger's text, such as the name of a field. */
const shortened = (message: string): string =>
  message.length > atMost ? `${message.slice(0, atMost).toWellFormed()}…` : message;
