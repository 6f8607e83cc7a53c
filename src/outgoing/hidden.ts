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
 * values of the URL, each whole value of the client's own headers, the part after the scheme of an `Authorization`, and the
 * password of a Basic one. Each is found also where URL, JSON or HTML escape it, and where the text ends within.
 */
export function withoutValues(text: string, url: string, own: Headers): string {
  const { pathname, search, searchParams } = new URL(url);
  const query = search.slice(1);
  const values = [
    ...[pathname, decoded(pathname)].flatMap(endsOf),
    query,
    ...query.split('&').map((pair) => pair.slice(pair.indexOf('=') + 1)),
    ...searchParams.values(),
    ...Object.values(own).flatMap((value) => {
      const credentials = value.slice(value.lastIndexOf(' ') + 1);
      return [value, credentials, String(Buffer.from(credentials, 'base64')).replace(/^.*?:/, '')];
    }),
  ]
    .flatMap((value) => [value, unescaped(value)])
    .filter(({ length }) => length >= tooShort);
  const plain = unescaped(text);
  let safe = plain;
  // A value may contain a shorter one, and would no longer be found without it.
  for (const value of [...new Set(values)].sort((a, b) => b.length - a.length))
    safe = withoutCut(safe.replaceAll(value, hiddenValue), value);
  return safe === plain ? text : safe;
}

/** A segment of a path that is hardly a word alone, and may be a key. */
const keyLike = /^(?=.*\d).{8,}$|^.{20,}$/;

/** Returns a path as frameworks name a route, and as they see it behind proxies that take up to three segments away; and its keys. */
function endsOf(path: string): string[] {
  const segments = path.split('/').slice(1);
  const ends = segments.slice(0, 4).map((_, i) => `/${segments.slice(i).join('/')}`);
  return [path.slice(1), ...ends, ...segments.filter((one) => keyLike.test(one))];
}

/** Returns a text with the visible characters of ASCII that a URL, JSON or HTML escapes. */
function unescaped(text: string): string {
  return text
    .replace(/(?:%|\\u00|&#x)([2-6][\da-f]|7[\da-e])((?<=&#x..);)?/gi, (_, hex) => decoded(`%${hex}`))
    .replace(/&#(3[2-9]|[4-9]\d|12[3-6]);/g, (_, code) => String.fromCharCode(code))
    .replace(/&(amp|quot);/g, (_, name) => (name === 'amp' ? '&' : '"'))
    .replace(/\\(?=[/"])/g, '');
}

const cutEscape = /(%[\da-f]?|\\(u[\da-f]{0,3})?|&#?\w{0,5})$/i;

function withoutCut(text: string, value: string): string {
  for (const end of [text, text.replace(cutEscape, '')])
    for (let length = Math.min(value.length - 1, end.length); length >= tooShort; length--)
      if (end.endsWith(value.slice(0, length))) return end.slice(0, -length) + hiddenValue;
  return text;
}
