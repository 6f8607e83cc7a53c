import { ApiError, badParameter } from '../apiError.js';

export interface Parameter {
  value: string;
  /** As it was in the query. */
  raw: string;
}

export type Parameters = ReadonlyMap<string, Parameter>;

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
