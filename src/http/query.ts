import { ApiError, badParameter } from './apiError.js';

/** No call knows more than seven. */
export const parametersAtMost = 32;

/** The parameters of a query, or the fields of a form, by name: each was given once. */
export type Parameters = ReadonlyMap<string, string>;

/**
 * Parses a query string or an urlencoded form. (The time of `ctx.query` grows with the square of the number of parameters.)
 * @throws ApiError 400
 */
export function parseParameters(encoded: string): Parameters {
  const pairs = encoded.split('&').filter((pair) => pair !== '');
  if (pairs.length > parametersAtMost) throw tooManyParameters();
  const decoded = pairs.map((pair): [string, string] => {
    const [given = '', ...value] = pair.split('=');
    const name = formDecoded(given, 'name').trim();
    return [name, formDecoded(value.join('='), name)];
  });
  return collectParameters(decoded, encoded);
}

/** Collects parameters; none may be given twice, not even an ignored one (RFC 6749, section 3.2). @throws ApiError 400 */
export function collectParameters(pairs: readonly [name: string, value: string][], encoded = ''): Parameters {
  if (pairs.length > parametersAtMost) throw tooManyParameters();
  const found = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (found.has(name)) throw badParameter(`The parameter ${shown(name)} is repeated${rawUrlHint(encoded)}`);
    found.set(name, value);
  }
  return found;
}

const tooManyParameters = (): ApiError =>
  new ApiError('too_many_parameters', `At most ${parametersAtMost} parameters are accepted`);

/** Returns a stranger's parameter name in a form that a message may show. */
export const shown = (name: string): string => name.slice(0, 64).replaceAll(/[^\w.-]/g, '?');

/** Returns a hint for a caller who sends a raw URL: the part after its first `&` arrives as parameters. */
const rawUrlHint = (query: string): string =>
  /(?:^|&)url=[^?&]*:\/\//i.test(query) ? '; a url with & in it must be percent-encoded' : '';

/** @throws ApiError 400 */
export function formDecoded(value: string, name: string): string {
  if (plain.test(value)) return value;
  try {
    return decodeURIComponent(value.replaceAll('+', ' '));
  } catch {
    const hasBarePercent = /%(?![\da-f]{2})/i.test(value);
    const remedy = hasBarePercent ? 'send a % as %25' : 'its bytes are no UTF-8, in which é is %C3%A9';
    throw badParameter(`The parameter ${shown(name)} is not correctly percent-encoded: ${remedy}`);
  }
}

const plain = /^[A-Za-z0-9._~:/-]*$/;

/** Where names belong that a call knows, as a predicate: `belongs in the query`. */
export type Places = ReadonlyMap<string, string>;

/**
 * Returns the parameters of a query: no unknown and no empty ones.
 * @param places of the names that the call takes elsewhere
 * @throws ApiError 400 naming the first of these
 */
export function readQuery(query: string, known: readonly string[], places: Places): Parameters {
  const given = parseParameters(query);
  for (const [name, value] of given) {
    if (!known.includes(name)) {
      // RFC 6750, section 2: never more than one way in one request.
      if (name === 'access_token')
        throw badParameter(
          'The access_token must be given as a header only: send Authorization: Bearer <token>',
        );
      const what = places.get(name) ?? `is not known${rawUrlHint(query) || mistakeIn(given, known)}`;
      throw badParameter(`The parameter ${shown(name)} ${what}`);
    }
    if (value === '') throw badParameter(`The parameter ${name} is empty`);
  }
  return given;
}

/**
 * @param of.known all names that the call takes, if others can have come
 * @param of.where the parameter belongs, after "missing"
 * @throws ApiError 400 if the parameter is missing or empty
 */
export function required(
  given: Parameters,
  name: string,
  of: { known?: readonly string[]; where?: string } = {},
) {
  const { known = [...given.keys(), name], where = '' } = of;
  const value = given.get(name);
  if (value === undefined)
    throw badParameter(
      `The parameter ${name} is missing${where}${mistakeIn(given, known) || nameUnknown(given, known)}`,
    );
  if (value === '') throw badParameter(`The parameter ${name} is empty`);
  return value;
}

/** Returns what is likely to be wrong with parameters of which one is missing or unknown; no value is shown. */
function mistakeIn(given: Parameters, known: readonly string[]): string {
  const names = [...given.keys()];
  const values = [...given.values()];
  if (names.some((name) => name.startsWith('amp;'))) return ': separate parameters by &, not by &amp;';
  if (names.some((name) => /=|&|%3d/i.test(name)))
    return ': they are percent-encoded as a whole: encode each name and each value, but neither = nor &';
  if (names.some((name) => /%[\da-f]{2}/i.test(name))) return ': their names are percent-encoded twice';
  const ours = known.filter((name) => /^\w+$/.test(name)).join('|');
  const separated = new RegExp(`([;,|?\\s])\\s{0,8}(?:${ours})=`);
  const [, separator] = values.map((value) => separated.exec(value)).find((found) => found !== null) ?? [];
  if (separator === undefined) return '';
  return `: separate parameters by &, not by ${/\s/.test(separator) ? 'a blank or a line end' : separator}`;
}

/** Names the parameters that no call knows, but none that may hold a secret: JSON, or a form that was encoded twice, is one name. */
function nameUnknown(given: Parameters, known: readonly string[]): string {
  const unknown = [...given.keys()].filter((name) => !known.includes(name) && /^[\w[\]]{1,32}$/.test(name));
  if (unknown.length === 0) return '';
  const hint = unknown.some((name) => name.includes('[')) ? ' (no name has brackets)' : '';
  return `; not known: ${unknown.slice(0, 8).join(', ')}${hint}`;
}
