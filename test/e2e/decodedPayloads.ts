/** The text of every byte array anywhere in a message, however deep: what the Temporal UI could show. */
export function decodedPayloads(message: unknown): string[] {
  const found: string[] = [];
  const seen = new Set<unknown>();
  const visit = (value: unknown): void => {
    if (value instanceof Uint8Array) {
      found.push(Buffer.from(value).toString());
      return;
    }
    if (typeof value === 'string') found.push(value);
    if (typeof value !== 'object' || value === null || seen.has(value)) return;
    seen.add(value);
    for (const inner of Object.values(value)) visit(inner);
  };
  visit(message);
  return found;
}
