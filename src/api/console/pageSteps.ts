import type { Middleware } from 'koa';
import type { ApiDeps } from '../deps.js';
import { endpoint, type Step } from '../endpoint.js';
import { limitAccount } from '../steps/accountRate.js';
import { requireSession, requireSite, type SessionState } from './access/session.js';
import { answerErrorsAsPages } from './answerErrors.js';
import { consoleHeaders } from './headers.js';

/** A page of the account: headers, errors as pages, the session, the account's rate of pages. */
export function pageSteps(deps: ApiDeps, ...steps: Step<SessionState>[]): Middleware[] {
  return endpoint<SessionState>(
    consoleHeaders,
    answerErrorsAsPages,
    requireSession(deps),
    limitAccount(deps, 'console') as Step<SessionState>,
    ...steps,
  );
}

/** A page of one of its sites, as state.client. */
export const sitePageSteps = (deps: ApiDeps, ...steps: Step<SessionState>[]): Middleware[] =>
  pageSteps(deps, requireSite(deps), ...steps);
