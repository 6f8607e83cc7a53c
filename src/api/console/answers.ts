/** The answers to the forms: the API's own steps do the work, and a page shows their answer. */
import type { Middleware } from 'koa';
import type { z } from 'zod';
import { badParameter } from '../apiError.js';
import { findNoticesClient, requireNoticesUrl } from '../endpoints/notices.js';
import {
  type RecoverState,
  type RedeliverState,
  type ResumeState,
  recoverEndpoint,
  redeliverEndpoint,
  replayEndpoint,
  resumeEndpointEndpoint,
} from '../endpoints/sendAgain.js';
import { rotateSigningSecretEndpoint, signingSecretEndpoint } from '../endpoints/signingSecret.js';
import {
  type answeredRequest,
  checkReceiverEndpoint,
  type oneCheck,
  type sentRequest,
  type TestState,
  testNotificationEndpoint,
} from '../endpoints/testNotification.js';
import type { ApiDeps, Step } from '../step.js';
import type { RegistrationState } from '../steps/publisher.js';
import { formSteps, requireSite } from './access.js';
import { type Html, html, type Piece } from './html.js';
import { actionForm, answerPage, type FormState, homeOf, type SessionState } from './page.js';
import { siteUrl } from './site.js';
import { count, exactly, stateInWords } from './words.js';

/** POST /console/sites/{site}/{key}: the answer to each form of a site. */
export const siteForms = (deps: ApiDeps): Record<string, Middleware[]> => ({
  test: answerForm<FormState & TestState>(deps, {
    ...shownTest,
    prepare: takeUrl,
    apiSteps: testNotificationEndpoint.steps(deps),
  }),
  check: answerForm<FormState & TestState>(deps, {
    title: 'Check',
    prepare: takeUrl,
    apiSteps: checkReceiverEndpoint.steps(deps),
    isGood: (answer) => wrongOf(answer).length === 0,
    present: (answer) => {
      const wrong = wrongOf(answer).length;
      const { checks } = answer as { checks: Check[] };
      return html`<p>${wrong === 0 ? 'Your receiver passes every check.' : `${count(wrong, 'check')} of ${checks.length} failed or need attention.`}</p>${checks.map(shownCheck)}`;
    },
  }),
  resume: answerForm<FormState & ResumeState>(deps, {
    title: 'Resume',
    apiSteps: resumeEndpointEndpoint.steps(deps),
    present: ({ state, owed }) =>
      html`<p>It is ${stateInWords(String(state))}; ${count(Number(owed), 'notification')} owed. ${state === 'failing' && 'A probe goes out now; when it succeeds, the others follow.'}</p>`,
  }),
  recover: answerRange(deps, {
    title: 'Recover',
    noun: 'notification',
    none: 'Nothing in that time ended as failed and was not followed by a newer one.',
    apiSteps: recoverEndpoint.steps(deps),
  }),
  replay: answerRange(deps, {
    title: 'Replay',
    noun: 'asset',
    none: 'No notification of that time has to be sent again.',
    apiSteps: replayEndpoint.steps(deps),
  }),
  signing_secret: answerForm(deps, {
    title: 'Signing secret',
    apiSteps: signingSecretEndpoint.steps(deps),
    present: ({ signing_secret: secret }) => shownSecret(String(secret)),
  }),
  'signing_secret/rotate': answerForm(deps, {
    title: 'Signing secret',
    apiSteps: rotateSigningSecretEndpoint.steps(deps),
    present: ({ signing_secret: secret, previous_valid_until: until }) => [
      html`<p>Made. ${until !== null && html`The one until now signs along until <strong>${exactly(Date.parse(String(until)))}</strong>: give your receiver the new one before then.`}</p>`,
      shownSecret(String(secret)),
    ],
  }),
  'notifications/:id/redeliver': answerForm<FormState & RedeliverState>(deps, {
    title: 'Send it again',
    apiSteps: redeliverEndpoint.steps(deps),
    present: ({ notification_id }) =>
      html`<p>It is due now, with the <code>webhook-id</code> <code>${String(notification_id)}</code>.</p>`,
  }),
});

/** POST /console/notices/test: a test to the account's URL for notices. */
export const answerNoticesTest = (deps: ApiDeps): Middleware[] =>
  answerForm<FormState & TestState & RegistrationState>(deps, {
    ...shownTest,
    find: findNoticesClient(deps.db),
    prepare: (ctx, next) => {
      ctx.state.parameters = new Map();
      return next();
    },
    apiSteps: [requireNoticesUrl(deps.db), ...testNotificationEndpoint.steps(deps)],
  });

type Answer = Readonly<Record<string, unknown>>;

interface FormAnswer<State> {
  title: string;
  /** Sets state.client; the site of the path unless it is given. */
  find?: Step<SessionState>;
  /** Sets the state that the API's steps read from a call: parameters of the query, a JSON body. */
  prepare?: Step<State>;
  /** The steps of the API's call after the caller and the client are known. */
  apiSteps: readonly Step<State>[];
  isGood?: (answer: Answer) => boolean;
  present: (answer: Answer, state: State) => Piece;
}

/** Returns the steps of a form: check the session and the form, prepare and run the API's steps, show their answer. */
function answerForm<State extends FormState>(
  deps: ApiDeps,
  { title, find = requireSite(deps), prepare, apiSteps, isGood = () => true, present }: FormAnswer<State>,
): Middleware[] {
  const showAnswer: Step<State> = async (ctx, next) => {
    await next();
    const answer = ctx.body as Answer;
    ctx.status = 200;
    answerPage(ctx, {
      title,
      parent: homeOf(ctx.state.client),
      body: html`<div id="result" class="notice ${isGood(answer) ? 'good' : 'bad'}" role="status" tabindex="-1">${present(answer, ctx.state)}</div>`,
    });
  };
  return formSteps<State>(deps, find, showAnswer, ...(prepare ? [prepare] : []), ...apiSteps);
}

/** Passes the URL of the form to a call that reads it as a parameter. */
const takeUrl: Step<FormState> = (ctx, next) => {
  const url = ctx.state.form.get('url');
  ctx.state.parameters = new Map(url ? [['url', { value: url, raw: encodeURIComponent(url) }]] : []);
  return next();
};

type Sent = z.output<typeof sentRequest>;
type Answered = z.output<typeof answeredRequest>;

const shownTest = {
  title: 'Test',
  isGood: ({ error }: Answer) => error === undefined,
  present: (answer: Answer) => {
    const { status, error, milliseconds, request } = answer as Answered & { request: Sent };
    return html`<p>${status === undefined ? html`<strong>No answer</strong> (${error})` : html`Your endpoint answered <strong>${status}</strong>`} after ${milliseconds} ms. ${error !== undefined && 'A notification would be tried again.'}</p>
<details><summary>What was sent</summary>${shownRequest(request)}</details>`;
  },
};

const shownRequest = ({ headers, body }: Sent): Html =>
  html`<pre>${[...Object.entries(headers).map(([name, value]) => `${name}: ${value}`), '', body].join('\n')}</pre>`;

type Check = z.output<typeof oneCheck>;

const wrongOf = (answer: Answer): Check[] =>
  (answer.checks as Check[]).filter(({ verdict }) => verdict !== 'ok');

const checkTitles: Record<Check['name'], string> = {
  good: 'A good notification',
  wrong_signature: 'A wrong signature',
  old_timestamp: 'A timestamp an hour old',
  twice: 'A repeat of the first one',
  slow: 'A slow body',
};

function shownCheck({ name, sent, answered, verdict, advice }: Check): Html {
  const answers = answered.map(
    ({ status, error, milliseconds }) => `${status ?? `no answer (${error})`} after ${milliseconds} ms`,
  );
  return html`<details ${verdict !== 'ok' && html`open`}><summary><span class="badge ${verdict}">${verdict}</span> ${checkTitles[name]}: ${answers.join(', then ')}</summary>
<p>${advice}</p>
${sent.map(shownRequest)}</details>
`;
}

interface Range {
  title: 'Recover' | 'Replay';
  noun: string;
  none: string;
  apiSteps: Step<FormState & RecoverState>[];
}

/**
 * Counts first, and shows a form that does it. For a replay the count fixes the end of the time, so that nothing is owed twice
 * even if that form is sent several times.
 */
function answerRange(deps: ApiDeps, { title, noun, none, apiSteps }: Range): Middleware[] {
  return answerForm<FormState & RecoverState>(deps, {
    title,
    apiSteps,
    prepare: (ctx, next) => {
      const { form } = ctx.state;
      ctx.state.json = {
        since: form.get('since') ?? sinceHours(form.get('hours') ?? ''),
        ...(title === 'Replay' && { until: form.get('until') ?? new Date().toISOString() }),
        dry_run: form.get('dry_run') === 'true',
      };
      return next();
    },
    present: ({ count: found, listed_since: listedSince }, { range, client, formToken }) => {
      const counted = count(Number(found), noun);
      const missing =
        listedSince !== undefined &&
        html`<p>Only the newest 10,000 notifications are kept, from ${exactly(Date.parse(String(listedSince)))} on: earlier deliveries may be missing.</p>`;
      if (!range.dryRun) return html`<p>${counted} owed again; sending begins now.</p>${missing}`;
      if (found === 0) return html`<p>${none}</p>${missing}`;
      const field = (name: 'since' | 'until') =>
        html`<input type="hidden" name="${name}" value="${new Date(range[name]).toISOString()}">`;
      const action = `${siteUrl(client.clientToken)}/${title.toLowerCase()}`;
      const fields = [field('since'), title === 'Replay' && field('until')];
      return html`<p>${counted} would be sent again.</p>${missing}${actionForm(action, formToken, `${title} ${counted}`, fields)}`;
    },
  });
}

/** @throws ApiError 400 */
function sinceHours(hours: string): string {
  if (!/^\d{1,3}$/.test(hours)) throw badParameter('hours is not a number');
  return new Date(Date.now() - Number(hours) * 3_600_000).toISOString();
}

const shownSecret = (secret: string): Html =>
  html`<p><code id="secret">${secret}</code> <button type="button" class="quiet" data-copies="secret">Copy</button></p>`;
