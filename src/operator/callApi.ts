import { Refused } from './refused.js';

const answerWithinMs = 10_000;

/** Calls the service. @throws Refused with its answer if that is not a 2xx, or if there is no answer */
export async function callApi<Answer>(url: string, init: RequestInit = {}): Promise<Answer> {
  const { origin, pathname } = new URL(url);
  const called = `${init.method ?? 'GET'} ${pathname}`;
  let response: Response;
  try {
    response = await fetch(url, { ...init, signal: AbortSignal.timeout(answerWithinMs) });
  } catch {
    throw new Refused(`The service does not answer at ${origin}: ${called}`);
  }
  const text = await response.text();
  if (!response.ok) throw new Refused(`${called} answered ${response.status}: ${text.slice(0, 500)}`);
  return JSON.parse(text) as Answer;
}
