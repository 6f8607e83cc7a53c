import { ApiError, badParameter, unreadableBody } from '../../apiError.js';
import { parametersAtMost, shown, tooManyParameters } from '../parameters.js';

/** US-ASCII is a part of both. */
export type Charset = 'utf-8' | 'iso-8859-1';

/** Returns the charset that a content type names; UTF-8 if it names none. @throws ApiError 415 */
export function charsetOf(contentType: string, otherwise: Charset = 'utf-8'): Charset {
  const named = /;\s*charset\s*=\s*"?([^\s;"]*)/i.exec(contentType)?.[1]?.toLowerCase();
  if (named === undefined) return otherwise;
  const known = charsets.get(named);
  if (known === undefined) {
    throw new ApiError('unsupported_media_type', 'The charset must be UTF-8, US-ASCII or ISO-8859-1');
  }
  return known;
}

const charsets = new Map<string, Charset>([
  ['utf-8', 'utf-8'],
  ['utf8', 'utf-8'],
  ['us-ascii', 'utf-8'],
  ['ascii', 'utf-8'],
  // The default of Apache HttpClient.
  ['iso-8859-1', 'iso-8859-1'],
  ['latin1', 'iso-8859-1'],
]);

/** @throws ApiError 400 for bytes that are not valid in the charset */
export function textOf(bytes: Uint8Array, charset: Charset): string {
  try {
    return charset === 'utf-8' ? utf8.decode(bytes) : Buffer.from(bytes).toString('latin1');
  } catch {
    throw unreadableBody();
  }
}

/**
 * Decodes a name or value of an urlencoded form.
 * @param encoded its bytes, each as the character with that code
 * @throws ApiError 400
 */
export function formDecoded(encoded: string, charset: Charset): string {
  if (plain.test(encoded)) return encoded;
  const withSpaces = encoded.replaceAll('+', ' ');
  if (brokenPercent.test(withSpaces)) throw unreadableBody();
  const bytes = withSpaces.replaceAll(/%(..)/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  return textOf(Buffer.from(bytes, 'latin1'), charset);
}

const plain = /^[A-Za-z0-9._~:/-]*$/;
const brokenPercent = /%(?![0-9a-f]{2})/i;
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** The fields of a form by name, trimmed, each given once. */
export type Form = ReadonlyMap<string, string>;

/** Collects fields; none may be given twice, not even an ignored one (RFC 6749, section 3.2). @throws ApiError 400 */
export function formOf(fields: Iterable<readonly [name: string, value: string]>): Form {
  const form = new Map<string, string>();
  for (const [name, value] of fields) {
    if (form.has(name)) throw badParameter(`The parameter ${shown(name)} is repeated`);
    if (form.size === parametersAtMost) throw tooManyParameters();
    form.set(name, value.trim());
  }
  return form;
}
