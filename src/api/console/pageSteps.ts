import type { Middleware } from 'koa';
import { toApiError } from '../apiError.js';
import { type ApiDeps, type ApiState, composeSteps, type Step } from '../step.js';
import { limitAccount } from '../steps/limits.js';
import { parametersOf } from '../steps/query.js';
import { requireSession, requireSite, type SessionState } from './access/session.js';
import { consoleHeaders } from './headers.js';
import { html } from './html.js';
import { answerPage } from './layout.js';

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

/** Returns a parameter of the query; undefined if it is absent or left empty in a form. @throws ApiError 400 */
export function given(ctx: { querystring: string; state: ApiState }, name: string): string | undefined {
  return parametersOf(ctx).get(name)?.value.trim() || undefined;
}

/** Shows an error as a page. The API itself answers and logs a bug of the service. */
export const answerErrorsAsPages: Step = async (ctx, next) => {
  try {
    await next();
  } catch (thrown) {
    const err = toApiError(thrown);
    if (err === undefined) throw thrown;
    const { session, formToken, client, requestId } = ctx.state as ApiState & Partial<SessionState>;
    ctx.status = err.status;
    ctx.set(err.headers);
    const site = client && `/console/sites/${client.clientToken}`;
    answerPage(ctx, {
      title: err.status === 404 ? 'Not found' : 'That did not work',
      ...(session && formToken && { session: { session, formToken } }),
      body: html`<div id="result" class="notice bad" role="alert" tabindex="-1"><p>${err.message}.</p>
<p class="faint">Request ${requestId}, code ${err.code}</p></div>
<p><a href="${site ?? '/console'}">Back</a></p>`,
    });
  }
};
