import { checkTarget, needsLookup, type TargetRefusal, TargetRefused } from '../../outgoing/target.js';
import { ApiError } from '../apiError.js';
import { type ErrorCode, errorCodes } from '../errors.js';
import type { ApiDeps, Parameter, Step } from '../step.js';
import { limitAccount } from './limits.js';
import type { TokenState } from './publisher.js';

/** The errors of a call that checks a URL. */
export const urlCodes: readonly ErrorCode[] = [
  ...errorCodes.filter((code) => code.startsWith('url_')),
  'resolver_unavailable',
];

/** Returns the steps that count a call whose URL has a name to look up, and check the URL. */
export function checkNewUrl<State extends TokenState>(
  deps: ApiDeps,
  urlOf: (state: State) => Parameter,
): Step<State>[] {
  const limit = limitAccount(deps, 'names');
  return [
    (ctx, next) => (needsLookup(urlOf(ctx.state).value) ? limit(ctx, next) : next()),
    async (ctx, next) => {
      await checkUrl(deps, urlOf(ctx.state));
      await next();
    },
  ];
}

/** Checks that notifications may go to this URL. @throws ApiError 400 saying what to send instead; ResolverUnavailable */
export async function checkUrl(
  { targetPolicy, lookup }: Pick<ApiDeps, 'targetPolicy' | 'lookup'>,
  url: Parameter,
): Promise<void> {
  try {
    await checkTarget(url.value, targetPolicy, lookup && { lookup });
  } catch (err) {
    if (err instanceof TargetRefused)
      throw new ApiError(`url_${err.reason}`, err.message + adviceOn(err.reason, url));
    throw err;
  }
}

function adviceOn(reason: TargetRefusal, { value, raw }: Parameter): string {
  if (reason === 'not_absolute' && raw.includes('+') && value.includes(' ')) {
    return '. A + in the query means a space: send a + in the url as %2B';
  }
  if (reason === 'scheme') return '. Send the https:// address of the same endpoint';
  if (reason === 'credentials') {
    return '. Leave user:password@ out: each notification is signed, and the path or the query may hold a secret';
  }
  return '';
}
