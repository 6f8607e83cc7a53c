/**
 * Parses a URL; undefined if the text is not a URL. `URL.canParse` cannot be used: once Node 20 has compiled a call of it,
 * it refuses every URL with a character that is not ASCII.
 */
export function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}
