/** Hides what may be secret in what is shown of a request and of its answer. */
import { unescape as decoded } from 'node:querystring';

/** A client's own headers. */
export type Headers = Readonly<Record<string, string>>;

/** Replaces a value wherever a request is shown. */
const hiddenValue = '***';

/** Returns the same names, without their values. */
export const hidden = (own: Headers): Record<string, string> =>
  Object.fromEntries(Object.keys(own).map((name) => [name, hiddenValue]));

/** Shorter values occur in any text by chance. */
const tooShort = 4;

/**
 * Hides what may be secret in a text of the receiver, such as an error page that shows the request: path, query and query
 * values of the URL, each whole value of the client's own headers, and the part after the scheme of an `Authorization`. A
 * value that is cut off at the end of the text is hidden too. JSON may have a backslash before each slash (PHP).
 */
export function withoutValues(text: string, url: string, own: Headers): string {
  const { pathname, search, searchParams } = new URL(url);
  const query = search.slice(1);
  const values = [
    ...[pathname, decoded(pathname)].flatMap(endsOf),
    query,
    ...query.split('&').map((pair) => pair.slice(pair.indexOf('=') + 1)),
    ...searchParams.values(),
    ...Object.values(own).flatMap((value) => [value, value.slice(value.lastIndexOf(' ') + 1)]),
  ]
    .flatMap((value) => [value, value.replaceAll('/', '\\/')])
    .filter(({ length }) => length >= tooShort);
  let safe = text;
  // A value may contain a shorter one, and would no longer be found without it.
  for (const value of values.sort((a, b) => b.length - a.length)) {
    safe = withoutCut(safe.replaceAll(value, hiddenValue), value);
  }
  return safe;
}

/** Returns a path as frameworks name a route, and as they see it behind proxies that take up to three segments away. */
function endsOf(path: string): string[] {
  const segments = path.split('/').slice(1);
  const ends = segments.slice(0, 4).map((_, i) => `/${segments.slice(i).join('/')}`);
  return [path.slice(1), ...ends];
}

function withoutCut(text: string, value: string): string {
  for (let length = Math.min(value.length - 1, text.length); length >= tooShort; length--) {
    if (text.endsWith(value.slice(0, length))) return text.slice(0, -length) + hiddenValue;
  }
  return text;
}
