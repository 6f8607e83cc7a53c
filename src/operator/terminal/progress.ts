/** One line on stderr with the progress of a long command, only at a terminal. */
import { clearLine, cursorTo } from 'node:readline';

/** Shorter work shows no progress. */
const afterMs = 2000;
const everyMs = 200;

/** Shows the text of `describe` while `work` runs, and erases it at the end. */
export async function withProgress<T>(describe: () => string, work: () => Promise<T>): Promise<T> {
  const { stderr } = process;
  if (!stderr.isTTY) return await work();
  const begun = performance.now();
  const timer = setInterval(() => {
    const passedMs = performance.now() - begun;
    if (passedMs < afterMs) return;
    const line = `${describe()}, ${Math.floor(passedMs / 1000)} s`;
    cursorTo(stderr, 0);
    // A line that wraps could not be redrawn. A terminal may not know its width.
    stderr.write(line.slice(0, (stderr.columns || 80) - 1));
    clearLine(stderr, 1);
  }, everyMs);
  try {
    return await work();
  } finally {
    clearInterval(timer);
    if (performance.now() - begun >= afterMs) {
      cursorTo(stderr, 0);
      clearLine(stderr, 0);
    }
  }
}

/** `1,234`. */
export const counted = (n: number): string => n.toLocaleString('en');
