import type { z } from 'zod';
import { ApiError, badParameter } from '../apiError.js';
import type { ApiState, Parameter, Parameters } from '../step.js';
import { checked } from './json.js';

/** No call knows more than seven. */
export const parametersAtMost = 32;

/**
 * Returns the names and values of a query string or an urlencoded form, undecoded. Every call uses this one reader for both.
 * It reads each character once and stops at the first parameter beyond the limit. (The time of `ctx.query` grows
 * with the square of their number.)
 * @throws ApiError 400
 */
export function pairsOf(encoded: string): [name: string, value: string][] {
  const pairs: [string, string][] = [];
  for (let from = 0; from < encoded.length; ) {
    const ampersand = encoded.indexOf('&', from);
    const end = ampersand < 0 ? encoded.length : ampersand;
    if (end > from) {
      if (pairs.length === parametersAtMost) throw tooManyParameters();
      const pair = encoded.slice(from, end);
      const equals = pair.indexOf('=');
      pairs.push(equals < 0 ? [pair, ''] : [pair.slice(0, equals), pair.slice(equals + 1)]);
    }
    from = end + 1;
  }
  return pairs;
}

/** Returns the parameters of a query, each decoded once as a form value and given at most once. @throws ApiError 400 */
export function parseParameters(query: string): Parameters {
  if (query === '') return none;
  const found = new Map<string, Parameter>();
  for (const [encodedName, raw] of pairsOf(query)) {
    const name = formDecoded(encodedName, 'name');
    if (found.has(name)) throw badParameter(`The parameter ${shown(name)} is repeated${rawUrlHint(query)}`);
    found.set(name, { value: formDecoded(raw, name), raw });
  }
  return found;
}

export const tooManyParameters = (): ApiError =>
  new ApiError('too_many_parameters', `At most ${parametersAtMost} parameters are accepted`);

/** Returns a stranger's parameter name in a form that a message may show. */
export const shown = (name: string): string => name.slice(0, 64).replaceAll(/[^\w.-]/g, '?');

/** Returns a hint for a caller who sends a raw URL: the part after its first `&` arrives as parameters. */
export const rawUrlHint = (query: string): string =>
  /(?:^|&)url=[^?&]*:\/\//i.test(query) ? '; a url with & in it must be percent-encoded' : '';

const none: Parameters = new Map();

function formDecoded(value: string, name: string): string {
  if (plain.test(value)) return value;
  try {
    return decodeURIComponent(value.replaceAll('+', ' '));
  } catch {
    throw badParameter(`The parameter ${shown(name)} is not correctly percent-encoded: send a % as %25`);
  }
}

const plain = /^[A-Za-z0-9._~:/-]*$/;

interface Asked {
  querystring: string;
  state: ApiState;
}

/** Returns the parameters of the request's query, parsed once. @throws ApiError 400 */
export function parametersOf(ctx: Asked): Parameters {
  ctx.state.parameters ??= parseParameters(ctx.querystring);
  return ctx.state.parameters;
}

/** Returns a required parameter. @throws ApiError 400 if it is missing or empty */
export function required(ctx: Asked, name: string): Parameter {
  const given = parametersOf(ctx).get(name);
  if (given === undefined) throw badParameter(`The parameter ${name} is missing`);
  if (given.value === '') throw badParameter(`The parameter ${name} is empty`);
  return given;
}

/** Refuses parameters that the call's declaration does not have. @throws ApiError 400 naming the first unknown one */
export function refuseUnknownParameters(ctx: Asked, known: readonly string[]): void {
  for (const name of parametersOf(ctx).keys()) {
    if (!known.includes(name)) {
      // RFC 6750, section 2: never more than one way in one request.
      if (name === 'access_token') throw badParameter(headerOnly);
      throw badParameter(`The parameter ${shown(name)} is not known${rawUrlHint(ctx.querystring)}`);
    }
  }
}

const headerOnly = 'The access_token must be given as a header only: send Authorization: Bearer <token>';

/** Returns the parameters that the schema has. @throws ApiError 400 */
export function readQuery<Shape extends z.ZodRawShape>(
  ctx: Asked,
  schema: z.ZodObject<Shape>,
): z.output<z.ZodObject<Shape>> {
  const given = Object.keys(schema.shape).filter((name) => parametersOf(ctx).has(name));
  return checked(schema, Object.fromEntries(given.map((name) => [name, required(ctx, name).value])));
}
