import type { Middleware } from 'koa';
import {
  type AssetExplanation,
  decisionInWords,
  explainAsset,
  whyNotSent,
} from '../../../redis/owed/decisions.js';
import type { ApiDeps } from '../../step.js';
import { type Html, html } from '../html.js';
import { given, sitePageSteps } from '../pageSteps.js';
import { answerSitePage, siteUrl } from '../siteFrame.js';
import { count, exactly, stateSentence } from './words.js';

/** GET /console/sites/{site}/asset: says why something was or was not sent about an asset. */
export function assetPage(deps: ApiDeps): Middleware[] {
  return sitePageSteps(deps, async (ctx) => {
    const { clientToken } = ctx.state.client;
    const platformId = given(ctx, 'platform_id');
    answerSitePage(ctx, {
      tab: '/asset',
      body: [
        html`<form class="row" action="${siteUrl(clientToken)}/asset"><div><label for="platform_id">Asset</label>
<input id="platform_id" name="platform_id" value="${platformId}" autocomplete="off" spellcheck="false" placeholder="its platform_id" required></div><button>Explain</button></form>`,
        platformId !== undefined &&
          explanation(clientToken, await explainAsset(deps.db, clientToken, platformId)),
      ],
    });
  });
}

function explanation(clientToken: string, why: AssetExplanation): Html {
  const { lastEvent, lastNotification: last, knownSegments, platformId } = why;
  if (lastEvent === undefined && knownSegments === 0) {
    return html`<div class="notice warn" role="status"><p>Nothing is known about the asset <code>${platformId}</code> of this site: no event has ever named it.</p><p>Compare the id with what the video platform has; upper and lower case differ.</p></div>`;
  }
  return html`<div class="notice ${last?.state === 'delivered' ? 'good' : 'warn'}" role="status"><p>${verdict(why)}</p></div>
<dl class="facts">
<dt>Last event</dt><dd>${lastEvent ? html`<code>${lastEvent.eventId}</code> at ${exactly(lastEvent.at)}` : 'more than 14 days ago'}</dd>
<dt>Decision</dt><dd>${decisionInWords(why)}</dd>
<dt>Known segments</dt><dd>${count(knownSegments, 'segment')}: only an event that brings another one makes a notification</dd>
${
  last &&
  html`<dt>Last notification</dt><dd><a href="${siteUrl(clientToken)}/notifications/${last.notificationId}">${last.notificationId}</a>, <span class="badge ${last.state}">${last.state.replace('_', ' ')}</span> ${stateSentence(last)}</dd>
<dt>Attempts</dt><dd>${last.attempts.length}</dd>`
}
</dl>`;
}

/** Returns the sentence above the facts. */
function verdict({ lastEvent, lastNotification: last }: AssetExplanation): Html | string {
  if (lastEvent !== undefined && lastEvent.decision !== 'queued') {
    return `The last event notified nobody: ${whyNotSent[lastEvent.decision]}.`;
  }
  if (last === undefined) return 'Its last notification is older than what is kept.';
  const [attempt] = last.attempts.slice(-1);
  switch (last.state) {
    case 'delivered':
      return html`You did get it: your endpoint answered ${attempt?.status ?? '2xx'} at ${exactly(last.endedAt ?? last.acceptedAt)}. Look for its <code>webhook-id</code> in your log.`;
    case 'waiting':
      return html`It is on its way: ${stateSentence(last)}.${attempt && html` The last attempt came to ${attempt.status ?? attempt.error}.`}`;
    default:
      return `It is ${last.state.replace('_', ' ')}${stateSentence(last) && `: ${stateSentence(last)}`}.`;
  }
}
