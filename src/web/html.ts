/** HTML as a tagged template that escapes every value except one that is `Html` itself, and the headers of a page. */

export class Html {
  constructor(readonly text: string) {}
}

/** A value in a template; false, null and undefined show nothing. */
export type Piece = Html | string | number | false | null | undefined | readonly Piece[];

/** Templates put attribute values in double quotes, so that no value can begin another attribute. */
export function html(strings: TemplateStringsArray, ...values: Piece[]): Html {
  let text = strings[0] ?? '';
  values.forEach((value, i) => {
    text += render(value) + (strings[i + 1] ?? '');
  });
  return new Html(text);
}

function render(value: Piece): string {
  if (value instanceof Html) return value.text;
  if (value === false || value === null || value === undefined) return '';
  if (typeof value === 'string' || typeof value === 'number') return escaped(String(value));
  return value.map(render).join('');
}

const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (found) => `&#${found.charCodeAt(0)};`);

/**
 * A page loads and calls this service only, has no script or style in its source, and no other site may frame it. `same-origin`,
 * because with `no-referrer` a browser hides a form's Origin.
 */
export const pageHeaders = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'X-Frame-Options': 'DENY',
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'same-origin',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
};
