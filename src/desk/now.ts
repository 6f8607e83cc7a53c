/** The first page: whether it is us or them, what to do, and the last day of the whole service. */
import { html } from '../api/console/html.js';
import { failures, outcomes, plot } from '../api/console/overview.js';
import { answerPage } from '../api/console/page.js';
import { type Answer, type Operator, whole } from '../operator/operation.js';
import { status } from '../operator/status.js';
import { readAttempts } from '../redis/records/attemptHistory.js';
import { shownParts } from './forms.js';
import type { DeskPage } from './people.js';

/** GET /desk */
export function nowPage(): DeskPage {
  const look = sharedLook();
  return async (ctx, { db }) => {
    const { operator } = ctx.state;
    const [{ shown }, steps] = await Promise.all([look(operator()), readAttempts(db)]);
    const plots = [
      plot('Attempts, in 5 minutes', steps, [
        { name: 'delivered', tint: 1, values: steps.map(({ delivered }) => delivered) },
        { name: 'failed', tint: 2, values: steps.map(failures) },
      ]),
      plot('Owed', steps, [{ name: 'owed assets', tint: 4, values: steps.map(({ owed = 0 }) => owed) }]),
    ];
    const body = [shownParts(shown), html`<h2>The last day</h2>`, outcomes(steps), plots];
    answerPage(ctx, { title: 'Now', isLive: true, body });
  };
}

/** Status reads every client: the pages of all people share a look, and looking takes a twentieth of the time. */
function sharedLook(): (operator: Operator) => Promise<Answer> {
  let shared: Promise<Answer> | undefined;
  let untilMs = 0;
  return (operator) => {
    if (shared !== undefined && performance.now() < untilMs) return shared;
    const begunMs = performance.now();
    untilMs = Number.POSITIVE_INFINITY;
    shared = status.run(operator, {}, whole);
    const rest = () => {
      const nowMs = performance.now();
      untilMs = nowMs + Math.max(2000, 20 * (nowMs - begunMs));
    };
    shared.then(rest, () => {
      untilMs = 0;
    });
    return shared;
  };
}
