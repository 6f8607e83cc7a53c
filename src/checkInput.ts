import type { z } from 'zod';

/**
 * Checks a caller's JSON.
 * @param at the path of the input in the body, such as `events[3]`; empty: the input is the body
 * @returns the data, or the problems in words, each `<path>: <what must change>`
 */
export function checkInput<T>(
  schema: z.ZodType<T>,
  input: unknown,
  at = '',
): { data: T } | { problem: string } {
  const parsed = schema.safeParse(input, inOurWords);
  if (parsed.success) return { data: parsed.data };
  const problems = parsed.error.issues.map(({ path, message }) => `${formatPath(at, path)}: ${message}`);
  return { problem: shortened(problems.join('; ')) };
}

/** Replaces the library's own messages, which name its types and operators. A schema's own messages stay. */
const inOurWords = {
  error: (issue: z.core.$ZodRawIssue): string => {
    switch (issue.code) {
      case 'invalid_type':
        return issue.input === undefined
          ? 'is missing'
          : `must be ${types[issue.expected] ?? 'of another type'}`;
      case 'unrecognized_keys':
        return `the member ${issue.keys.map((key) => `"${key}"`).join(', ')} is unknown`;
      case 'invalid_value':
        return `must be ${issue.values.join(' or ')}`;
      case 'too_small':
        return 'must not be empty';
      case 'too_big':
        return `must have at most ${issue.maximum} ${issue.origin === 'string' ? 'characters' : 'items'}`;
      default:
        return 'is not valid';
    }
  },
};

const types: Record<string, string> = {
  string: 'a string',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
};

function formatPath(at: string, path: readonly PropertyKey[]): string {
  let text = at;
  for (const part of path) {
    text += typeof part === 'number' ? `[${part}]` : `${text === '' ? '' : '.'}${String(part)}`;
  }
  return text === '' ? 'body' : text;
}

const atMost = 300;

/** Shortens a message that contains a stranger's text, such as the name of a field. */
function shortened(message: string): string {
  return message.length > atMost ? `${message.slice(0, atMost).toWellFormed()}…` : message;
}
