/** Holds every answer that a test gets with fetch from a watched service against the API's description. */
import { type Answer, assertDescribed } from './described.js';

const watched = new Set<string>();
const underWay: Promise<Error | undefined>[] = [];

/** @param url where the API listens; what it answers from now on is checked, and a test that got another answer fails */
export function watchAnswers(url: string): void {
  watched.add(new URL(url).origin);
}

/** Resolves once the answers so far are checked. @throws for the first that is not as described */
export async function assertAllDescribed(): Promise<void> {
  const found = (await Promise.all(underWay.splice(0))).find((err) => err !== undefined);
  if (found) throw found;
}

const plainFetch = globalThis.fetch;
globalThis.fetch = async (input, init) => {
  const answer = await plainFetch(input, init);
  const { origin, pathname } = new URL(input instanceof Request ? input.url : input);
  // The console's pages are for browsers: no call, and some of them never end.
  if (!watched.has(origin) || answer.body === null || /^\/console(\/|$)/.test(pathname)) return answer;
  const method = (init?.method ?? (input instanceof Request ? input.method : 'GET')).toUpperCase();
  const { status, headers } = answer;
  underWay.push(check({ method, path: pathname, status, headers }, answer.clone()));
  return answer;
};

async function check(head: Omit<Answer, 'text'>, copy: Response): Promise<Error | undefined> {
  // A test may break off what it reads, or end the service.
  const text = await copy.text().catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    assertDescribed({ ...head, text });
    return undefined;
  } catch (err) {
    return err as Error;
  }
}

// Outside of mocha (examples, recorders) nobody asks.
if (typeof afterEach === 'function') afterEach(() => assertAllDescribed());
