import type { Middleware } from 'koa';
import { composeSteps, type Step } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';
import { limitAccount } from '../steps/accountRate.js';
import { requireSession, requireSite, type SessionState } from './access/session.js';
import { answerErrorsAsPages } from './answerErrors.js';
import { consoleHeaders } from './headers.js';

/** A page of the account: headers, errors as pages, the session, the account's rate of pages. */
export function pageSteps<State extends SessionState>(deps: ApiDeps, ...steps: Step<State>[]): Middleware[] {
  return composeSteps<State>(
    consoleHeaders,
    answerErrorsAsPages,
    requireSession(deps),
    limitAccount(deps, 'console'),
    ...steps,
  );
}

/** A page of one of its sites, as state.client. */
export const sitePageSteps = <State extends SessionState>(
  deps: ApiDeps,
  ...steps: Step<State>[]
): Middleware[] => pageSteps<State>(deps, requireSite(deps), ...steps);
