import type { Middleware } from 'koa';
import { checkReceiverEndpoint, type TestState } from '../../endpoints/testNotification.js';
import type { ApiDeps } from '../../step.js';
import type { FormState } from '../access/session.js';
import { type Html, html } from '../html.js';
import { type Answer, answerForm, asText, type SentRequest, takeUrl } from './answers.js';
import { count } from './words.js';

interface Check {
  name: string;
  sent: SentRequest[];
  answered: { status?: number; milliseconds: number; error?: string }[];
  verdict: 'ok' | 'warn' | 'fail';
  advice: string;
}

const checksOf = (answer: Answer): Check[] => answer.checks as Check[];

/** POST /console/sites/{site}/check: shows the receiver's answers to good and bad notifications, and what to change in it. */
export const answerCheck = (deps: ApiDeps): Middleware[] =>
  answerForm<FormState & TestState>(deps, {
    title: 'Check',
    isGood: (answer) => checksOf(answer).every(({ verdict }) => verdict === 'ok'),
    apiSteps: checkReceiverEndpoint.steps(deps),
    prepare: takeUrl,
    present: (answer) => {
      const checks = checksOf(answer);
      const wrong = checks.filter(({ verdict }) => verdict !== 'ok').length;
      return [
        html`<p>${wrong === 0 ? 'Your receiver passes every check.' : `${count(wrong, 'check')} of ${checks.length} failed or need attention.`}</p>`,
        checks.map(oneCheck),
      ];
    },
  });

const titles: Record<string, string> = {
  good: 'A good notification',
  wrong_signature: 'A wrong signature',
  old_timestamp: 'A timestamp an hour old',
  twice: 'A repeat of the first one',
  slow: 'A slow body',
};

const badges = { ok: 'active', warn: 'failing', fail: 'suspended' } as const;

const oneCheck = ({ name, sent, answered, verdict, advice }: Check): Html =>
  html`<details ${verdict !== 'ok' && html`open`}><summary><span class="badge ${badges[verdict]}">${verdict}</span> ${titles[name] ?? name}: ${answered.map(answerText).join(', then ')}</summary>
<p>${advice}</p>
${sent.map((request) => html`<pre class="wrap" tabindex="0">${asText(request)}</pre>`)}</details>
`;

const answerText = ({ status, error, milliseconds }: Check['answered'][number]): string =>
  `${status ?? `no answer (${error})`} after ${milliseconds} ms`;
