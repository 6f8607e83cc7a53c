/** Whether an API answers where this command would call it. */
import { type Finding, fail, ok, warn } from './finding.js';

const answerWithinMs = 3000;

export async function checkService(api: string): Promise<Finding[]> {
  const check = 'service';
  try {
    const response = await fetch(`${api}/readyz`, { signal: AbortSignal.timeout(answerWithinMs) });
    if (response.ok) return [ok(check, `It is ready at ${api}.`)];
    return [fail(check, `It answers ${response.status} at ${api}/readyz.`, 'Look at its log, and at Redis.')];
  } catch {
    const todo =
      'Where it runs elsewhere this says nothing; else set HOST and PORT as the service has them, or start it.';
    return [warn(check, `It does not answer at ${api}.`, todo)];
  }
}
