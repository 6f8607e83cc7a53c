/** Checks whether an API answers at the address that this command would call. */
import { type Finding, fail, ok, warn } from './finding.js';

const answerWithinMs = 3000;

export async function checkService(api: string): Promise<Finding[]> {
  const check = 'service';
  try {
    const response = await fetch(`${api}/readyz`, { signal: AbortSignal.timeout(answerWithinMs) });
    if (response.ok) return [ok(check, `It is ready at ${api}.`)];
    return [fail(check, `It answers ${response.status} at ${api}/readyz.`, 'Check its log, and Redis.')];
  } catch {
    const todo =
      'If it runs on another machine, ignore this. Otherwise start it, or set HOST and PORT as for the service.';
    return [warn(check, `It does not answer at ${api}.`, todo)];
  }
}
