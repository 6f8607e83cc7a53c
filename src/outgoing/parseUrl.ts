/**
 * Parses a URL; undefined where the text is none. `URL.canParse` will not do: once Node 20 has compiled a call of it, it
 * refuses every URL with a character that is not ASCII.
 */
export function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}
