/** Runs a step of a start, then prints its address and how long it took. */
export async function step<T>(
  say: (line: string) => void,
  name: string,
  where: string,
  work: () => Promise<T>,
): Promise<T> {
  const from = Date.now();
  const result = await work();
  say(`${name.padEnd(10)} ${where} (${((Date.now() - from) / 1000).toFixed(1)} s)`);
  return result;
}
