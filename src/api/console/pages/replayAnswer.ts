import type { Middleware } from 'koa';
import { type RecoverState, replayEndpoint } from '../../endpoints/sendAgain.js';
import type { ApiDeps } from '../../step.js';
import type { FormState } from '../access/session.js';
import { html } from '../html.js';
import { siteUrl } from '../siteFrame.js';
import { actionForm } from './actions.js';
import { answerForm, sinceOf } from './answers.js';
import { count, exactly } from './words.js';

/**
 * POST /console/sites/{site}/replay: counts first. The count fixes the end of the time, so that nothing is owed twice even if
 * the second form is sent several times.
 */
export const answerReplay = (deps: ApiDeps): Middleware[] =>
  answerForm<FormState & RecoverState>(deps, {
    title: 'Replay',
    apiSteps: replayEndpoint.steps(deps),
    prepare: (ctx, next) => {
      const { form } = ctx.state;
      ctx.state.json = {
        since: form.get('since') ?? sinceOf(form.get('hours') ?? ''),
        until: form.get('until') ?? new Date().toISOString(),
        dry_run: form.get('dry_run') === 'true',
      };
      return next();
    },
    present: ({ count: found, listed_since: listedSince }, state) => {
      const { since, until, dryRun } = state.range;
      const assets = count(Number(found), 'asset');
      const short =
        listedSince !== undefined &&
        html`<p>Only the newest 10,000 notifications are kept, from ${exactly(Date.parse(String(listedSince)))} on: earlier deliveries may be missing.</p>`;
      if (!dryRun) return html`<p>${assets} owed again; sending begins now.</p>${short}`;
      if (found === 0) {
        return html`<p>No notification of that time has to be sent again.</p>${short}`;
      }
      const fields = html`<input type="hidden" name="since" value="${new Date(since).toISOString()}"><input type="hidden" name="until" value="${new Date(until).toISOString()}">`;
      const action = `${siteUrl(state.client.clientToken)}/replay`;
      return html`<p>${assets} would be sent again.</p>${short}${actionForm(action, state.formToken, `Replay ${assets}`, fields)}`;
    },
  });
