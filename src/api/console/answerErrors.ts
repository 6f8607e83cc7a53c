import { toApiError } from '../answerErrors.js';
import type { ApiState, Step } from '../composeSteps.js';
import type { SessionState } from './access/session.js';
import { html } from './html.js';
import { answerPage } from './layout.js';

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
${err.headers['Retry-After'] && html`<p>Try again in ${err.headers['Retry-After']} s.</p>`}
<p class="faint">Request ${requestId}, code ${err.code}</p></div>
<p><a href="${site ?? '/console'}">Back</a></p>`,
    });
  }
};
