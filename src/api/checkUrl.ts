import { checkTarget, TargetRefused } from '../outgoing/target.js';
import { ApiError } from './apiError.js';
import type { ApiDeps } from './deps.js';

/** Whether notifications may go to this URL. @throws ApiError 400 saying which rule refuses; ResolverUnavailable */
export async function checkUrl(
  { targetPolicy, lookup }: Pick<ApiDeps, 'targetPolicy' | 'lookup'>,
  url: string,
): Promise<void> {
  try {
    await checkTarget(url, targetPolicy, lookup && { lookup });
  } catch (err) {
    if (err instanceof TargetRefused) throw new ApiError(`url_${err.reason}`, err.message);
    throw err;
  }
}
