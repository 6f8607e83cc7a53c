/** Maps every item, at most `concurrency` at a time, in order: bounded, so that a long list does not flood a server. */
export async function mapInPages<T, R>(
  items: readonly T[],
  concurrency: number,
  map: (item: T) => Promise<R>,
): Promise<R[]> {
  const mapped: R[] = [];
  for (let start = 0; start < items.length; start += concurrency) {
    mapped.push(...(await Promise.all(items.slice(start, start + concurrency).map(map))));
  }
  return mapped;
}
