/** How much of a failed answer is read, and the most that is kept for the publisher to read, as JSON. */
export const excerptBytes = 1_024;

/**
 * Returns the first 1 KiB of an answer as text that is safe to show: valid UTF-8, without a character that is cut at the
 * end, white space as blanks, other control and direction-changing characters as U+FFFD.
 */
export function excerptOf(chunks: readonly Buffer[]): string {
  const start = Buffer.concat(chunks).subarray(0, excerptBytes);
  const text = new TextDecoder('utf-8').decode(start, { stream: true });
  return cutToJson(text.replace(/[\t\n\r]+/g, ' ').replace(unsafeCharacters, '\ufffd'));
}

/** Cuts a text whose characters have become longer: an invalid byte three bytes, a quotation mark two. */
function cutToJson(text: string): string {
  let bytes = 0;
  let cut = '';
  for (const character of text) {
    bytes += Buffer.byteLength(JSON.stringify(character)) - 2;
    if (bytes > excerptBytes) break;
    cut += character;
  }
  return cut;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
const unsafeCharacters = /[\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069]/g;
