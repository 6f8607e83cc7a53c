/** `map` of every item, so many at once, in their order: a long list neither waits for each nor floods a server. */
export async function mapInPages<T, R>(
  items: readonly T[],
  atOnce: number,
  map: (item: T) => Promise<R>,
): Promise<R[]> {
  const mapped: R[] = [];
  for (let start = 0; start < items.length; start += atOnce) {
    mapped.push(...(await Promise.all(items.slice(start, start + atOnce).map(map))));
  }
  return mapped;
}
