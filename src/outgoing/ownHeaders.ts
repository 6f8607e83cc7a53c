/** Headers of a client's own, sent beside those of the service: which there may be, and how what is shown hides them. */

type Headers = Readonly<Record<string, string>>;

export const ownHeadersAtMost = 5;
export const headerNameAtMost = 64;
export const headerValueAtMost = 2_048;

/** Letters, digits and hyphens: what every proxy passes on. (RFC 9110, section 5.6.2, has more.) */
export const headerNamePattern = /^[A-Za-z][A-Za-z0-9-]*$/;

/** Visible ASCII, with blanks between: nothing that could end a line or that HTTP trims. */
export const headerValuePattern = /^[!-~]([ -~]*[!-~])?$/;

/** What the service or HTTP itself sets, what a proxy keeps for its own hop (RFC 9110, section 7.6.1), and what says whence. */
const reserved =
  /^(accept-encoding|connection|content-.*|date|expect|forwarded|host|http2-settings|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|user-agent|via|webhook-.*|x-forwarded-.*|x-real-ip)$/;

export const isReservedHeader = (name: string): boolean => reserved.test(name.toLowerCase());

/** What stands in the place of a value wherever a request is shown. */
export const hiddenValue = '***';

/** Returns the same names, without their values. */
export const hidden = (own: Headers): Record<string, string> =>
  Object.fromEntries(Object.keys(own).map((name) => [name, hiddenValue]));

/** Values that are shorter stand in any text by chance. */
const tooShort = 4;

/**
 * Hides the values in a text that the receiver wrote, such as an error page that shows the request: each as a whole, and
 * what follows the scheme of an `Authorization`. A value that the end of the text cuts is hidden too.
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
