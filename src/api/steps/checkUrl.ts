import { ApiError } from '../../http/apiError.js';
import { type ErrorCode, errorCodes } from '../../http/errors.js';
import { checkTarget, TargetRefused } from '../../outgoing/target.js';
import type { ApiDeps } from '../deps.js';

export const urlCodes: readonly ErrorCode[] = [
  ...errorCodes.filter((code) => code.startsWith('url_')),
  'resolver_unavailable',
];

/**
 * Checks that notifications may go to this URL.
 * @param query the query that has the URL, undecoded; empty if it came in a body
 * @throws ApiError 400 saying what to send instead; ResolverUnavailable
 */
export async function checkUrl(
  { targetPolicy, lookup }: Pick<ApiDeps, 'targetPolicy' | 'lookup'>,
  url: string,
  query = '',
): Promise<void> {
  try {
    await checkTarget(url, targetPolicy, lookup);
  } catch (err) {
    if (!(err instanceof TargetRefused)) throw err;
    const hasLostAPlus = err.reason === 'not_absolute' && url.includes(' ') && query.includes('+');
    const isEncodedTwice = /^https?%3a/i.test(url);
    const hint =
      (hasLostAPlus && '. A + in the query means a space') ||
      (isEncodedTwice && '. It is percent-encoded twice: encode it once') ||
      '';
    throw new ApiError(`url_${err.reason}`, err.message + hint);
  }
}
