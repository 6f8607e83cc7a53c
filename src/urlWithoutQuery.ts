/** Returns a receiver's URL without its query, which may hold a secret. */
export function urlWithoutQuery(url: string): string {
  const query = url.indexOf('?');
  return query === -1 ? url : `${url.slice(0, query)}?...`;
}
