/** A client's own headers, sent with those of the service: which are allowed, and how their values are hidden. */

type Headers = Readonly<Record<string, string>>;

export const ownHeadersAtMost = 5;
export const headerNameAtMost = 64;
export const headerValueAtMost = 2_048;

/** Letters, digits and hyphens, which every proxy forwards. (RFC 9110, section 5.6.2, allows more.) */
export const headerNamePattern = /^[A-Za-z][A-Za-z0-9-]*$/;

/** Visible ASCII, with blanks only between: no character that could end a line or that HTTP trims. */
export const headerValuePattern = /^[!-~]([ -~]*[!-~])?$/;

/** Headers that the service or HTTP sets, that a proxy uses for its own hop (RFC 9110, section 7.6.1), or that name the origin. */
const reserved =
  /^(accept-encoding|connection|content-.*|date|expect|forwarded|host|http2-settings|keep-alive|proxy-.*|te|traceparent|trailer|transfer-encoding|upgrade|user-agent|via|webhook-.*|x-forwarded-.*|x-real-ip)$/;

export const isReservedHeader = (name: string): boolean => reserved.test(name.toLowerCase());

/** Replaces a value wherever a request is shown. */
const hiddenValue = '***';

/** Returns the same names, without their values. */
export const hidden = (own: Headers): Record<string, string> =>
  Object.fromEntries(Object.keys(own).map((name) => [name, hiddenValue]));

/** Shorter values occur in any text by chance. */
const tooShort = 4;

/**
 * Hides the values in a text of the receiver, such as an error page that shows the request: each whole value, and the
 * part after the scheme of an `Authorization`. A value that is cut off at the end of the text is hidden too.
 */
export function withoutValues(text: string, own: Headers): string {
  const values = Object.values(own).flatMap((value) => [value, value.slice(value.lastIndexOf(' ') + 1)]);
  let safe = text;
  for (const value of new Set(values.filter(({ length }) => length >= tooShort))) {
    safe = withoutCut(safe.replaceAll(value, hiddenValue), value);
  }
  return safe;
}

function withoutCut(text: string, value: string): string {
  for (let length = Math.min(value.length - 1, text.length); length >= tooShort; length--) {
    if (text.endsWith(value.slice(0, length))) return text.slice(0, -length) + hiddenValue;
  }
  return text;
}
