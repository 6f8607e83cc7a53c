/** The answers to the forms of a site: the API's own steps do the work, and a page shows their answer. */
import type { Middleware } from 'koa';
import { badParameter } from '../../apiError.js';
import {
  type RecoverState,
  type RedeliverState,
  type ResumeState,
  recoverEndpoint,
  redeliverEndpoint,
  resumeEndpointEndpoint,
} from '../../endpoints/sendAgain.js';
import { rotateSigningSecretEndpoint, signingSecretEndpoint } from '../../endpoints/signingSecret.js';
import { type TestState, testNotificationEndpoint } from '../../endpoints/testNotification.js';
import { type ApiDeps, composeSteps, type Step } from '../../step.js';
import { readForm } from '../../steps/form.js';
import { type FormState, requireOwnForm, requireSession, requireSite } from '../access/session.js';
import { consoleHeaders } from '../headers.js';
import { type Html, html, type Piece } from '../html.js';
import { answerErrorsAsPages } from '../pageSteps.js';
import { answerSitePage, siteUrl } from '../siteFrame.js';
import { actionForm } from './actions.js';
import { count, exactly, stateWords } from './words.js';

export type Answer = Readonly<Record<string, unknown>>;

interface FormAnswer<State> {
  title: string;
  /** The steps of the API's call after the caller and the client are known. */
  apiSteps: readonly Step<State>[];
  /** Sets the state that these steps read from a call of the API: parameters of the query, a JSON body. */
  prepare?: Step<State>;
  present: (answer: Answer, state: State) => Piece;
  isGood?: (answer: Answer) => boolean;
}

/** Returns the steps of a form: check the session and the form, prepare and run the API's steps, show their answer. */
export function answerForm<State extends FormState>(
  deps: ApiDeps,
  { title, apiSteps, prepare, present, isGood = () => true }: FormAnswer<State>,
): Middleware[] {
  const showAnswer: Step<State> = async (ctx, next) => {
    await next();
    const answer = ctx.body as Answer;
    const tone = isGood(answer) ? 'good' : 'bad';
    ctx.status = 200;
    answerSitePage(ctx, {
      title,
      body: html`<div id="result" class="notice ${tone}" role="status" tabindex="-1">${present(answer, ctx.state)}</div>`,
    });
  };
  return composeSteps<State>(
    consoleHeaders,
    answerErrorsAsPages,
    requireSession(deps),
    requireSite(deps),
    readForm,
    requireOwnForm(deps),
    showAnswer,
    ...(prepare === undefined ? [] : [prepare]),
    ...apiSteps,
  );
}

export const answerTest = (deps: ApiDeps): Middleware[] =>
  answerForm<FormState & TestState>(deps, {
    title: 'Test',
    isGood: ({ error }) => error === undefined,
    apiSteps: testNotificationEndpoint.steps(deps),
    prepare: takeUrl,
    present: (answer) => {
      const { status, error, milliseconds, request } = answer as Answer & TestAnswer;
      const came =
        status === undefined
          ? html`<strong>No answer</strong> (${error})`
          : html`Your endpoint answered <strong>${status}</strong>`;
      return html`<p>${came} after ${milliseconds} ms. ${error !== undefined && 'A notification would be tried again.'}</p>
<details><summary>What was sent</summary><pre class="wrap" tabindex="0">${asText(request)}</pre></details>`;
    },
  });

/** Passes the URL of the form to a call that reads it as a parameter. */
export const takeUrl: Step<FormState> = (ctx, next) => {
  const url = ctx.state.form.get('url');
  ctx.state.parameters = new Map(url ? [['url', { value: url, raw: encodeURIComponent(url) }]] : []);
  return next();
};

export interface SentRequest {
  headers: Record<string, string>;
  body: string;
}

export const asText = ({ headers, body }: SentRequest): string =>
  [...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), '', body].join('\n');

interface TestAnswer {
  status?: number;
  error?: string;
  milliseconds: number;
  request: SentRequest;
}

export const answerResume = (deps: ApiDeps): Middleware[] =>
  answerForm<FormState & ResumeState>(deps, {
    title: 'Resume',
    apiSteps: resumeEndpointEndpoint.steps(deps),
    present: ({ state, owed }) =>
      html`<p>It is ${stateWords[String(state)]}; ${count(Number(owed), 'notification')} owed. ${state === 'failing' && 'A probe goes out now; when it succeeds, the others follow.'}</p>`,
  });

export const answerRedeliver = (deps: ApiDeps): Middleware[] =>
  answerForm<FormState & RedeliverState>(deps, {
    title: 'Send it again',
    apiSteps: redeliverEndpoint.steps(deps),
    present: ({ notification_id }) =>
      html`<p>It is due now, with the <code>webhook-id</code> <code>${String(notification_id)}</code>.</p>`,
  });

export const answerRecover = (deps: ApiDeps): Middleware[] =>
  answerForm<FormState & RecoverState>(deps, {
    title: 'Recover',
    apiSteps: recoverEndpoint.steps(deps),
    prepare: (ctx, next) => {
      const { form } = ctx.state;
      ctx.state.json = {
        since: form.get('since') ?? sinceOf(form.get('hours') ?? ''),
        dry_run: form.get('dry_run') === 'true',
      };
      return next();
    },
    present: ({ count: found }, state) => {
      const { since, dryRun } = state.range;
      const failed = count(Number(found), 'notification');
      if (!dryRun) return html`<p>${failed} owed again; sending begins now.</p>`;
      if (found === 0)
        return html`<p>Nothing in that time ended as failed and was not followed by a newer one.</p>`;
      const fields = html`<input type="hidden" name="since" value="${new Date(since).toISOString()}">`;
      const action = `${siteUrl(state.client.clientToken)}/recover`;
      return html`<p>${failed} would be sent.</p>${actionForm(action, state.formToken, `Recover ${failed}`, fields)}`;
    },
  });

/** @throws ApiError 400 */
export function sinceOf(hours: string): string {
  if (!/^\d{1,3}$/.test(hours)) throw badParameter('hours is not a number');
  return new Date(Date.now() - Number(hours) * 3_600_000).toISOString();
}

export const answerSigningSecret = (deps: ApiDeps): Middleware[] =>
  answerForm(deps, {
    title: 'Signing secret',
    apiSteps: signingSecretEndpoint.steps(deps),
    present: ({ signing_secret: secret }) => shownSecret(String(secret)),
  });

export const answerRotate = (deps: ApiDeps): Middleware[] =>
  answerForm(deps, {
    title: 'Signing secret',
    apiSteps: rotateSigningSecretEndpoint.steps(deps),
    present: ({ signing_secret: secret, previous_valid_until: until }) => [
      html`<p>Made. ${until !== null && html`The one until now signs along until <strong>${exactly(Date.parse(String(until)))}</strong>: give your receiver the new one before.`}</p>`,
      shownSecret(String(secret)),
    ],
  });

const shownSecret = (secret: string): Html =>
  html`<p><code id="secret">${secret}</code> <button type="button" class="quiet" data-copies="secret">Copy</button></p>`;
