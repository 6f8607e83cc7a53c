/** The page that a link leads to, and the session that the link opens. */
import type { Middleware } from 'koa';
import {
  endConsoleSession,
  findConsoleLink,
  findConsoleSession,
  newConsoleSecret,
  openConsoleLink,
} from '../../redis/records/consoleSessions.js';
import { clientAddress } from '../clientAddress.js';
import type { ApiDeps, StepContext } from '../step.js';
import { audit } from '../steps/auditCall.js';
import type { Form } from '../steps/form.js';
import { readForm } from '../steps/form.js';
import {
  formTokenOf,
  isEqual,
  publicOrigin,
  redirect,
  requireSameOrigin,
  secretOf,
  sessionCookie,
} from './access.js';
import { html, type Piece } from './html.js';
import { answerPage, composePage, formTokenField } from './page.js';

/** GET /console/open: the script sends the token after `#`; without a token the page says how to get a link. */
export const openPage: Middleware[] = composePage(async (ctx) => {
  answerPage(ctx, { title: 'Open the console', body: howToGetALink() });
});

const howToGetALink = (notice?: string): Piece => html`
${notice && html`<div class="notice bad" role="alert"><p>${notice}</p></div>`}
<form method="post" action="/console/open" class="stack" data-open>
<p>You are not signed in. A link opens this console; it works once, for 15 minutes, and a session lasts 8 hours at most.</p>
<ol>
<li>In your company’s own pages for these notifications, follow the link to the console: each time it makes a new one.</li>
<li>Where there is no such page, ask your account manager for a link, or have your backend call <code>POST /console_sessions</code> with an access token and open the <code>url</code> that it answers.</li>
</ol>
<label for="link">Link</label>
<input id="link" name="link" autocomplete="off" spellcheck="false" required>
<button>Open</button>
</form>`;

/**
 * POST /console/open: uses up the link and begins a session, which ends the browser's former one. While a session of
 * another account is open, it asks first: whoever sent the link could otherwise have its reader act in an account of
 * theirs.
 */
export function openEndpoint(deps: ApiDeps): Middleware[] {
  const { db, config } = deps;
  return composePage<{ form: Form }>(readForm, async (ctx) => {
    requireSameOrigin(ctx.req, config);
    const { form } = ctx.state;
    const given = form.get('link') ?? '';
    const token = given.slice(given.lastIndexOf('#') + 1);
    const link = await findConsoleLink(db, token);
    if (link === undefined) return answerUsed(ctx);
    const before = secretOf(ctx, deps);
    const session = before === undefined ? undefined : await findConsoleSession(db, before);
    if (before !== undefined && session !== undefined && session.accountId !== link.accountId) {
      const formToken = formTokenOf(before);
      if (!isEqual(form.get('form_token') ?? '', formToken)) {
        const body = askToSwitch(session.accountName, link.accountName, [
          html`<input type="hidden" name="link" value="${token}">`,
          formTokenField(formToken),
        ]);
        return answerPage(ctx, { title: 'Open another account', body });
      }
    }
    const { secret, fingerprint } = newConsoleSecret();
    const call = {
      accountId: link.accountId,
      clientToken: '',
      what: 'console opened',
      address: clientAddress(ctx.req, config.TRUSTED_PROXIES),
      tokenFingerprint: `console:${fingerprint}`,
      requestId: ctx.state.requestId,
      about: { access: link.access },
    };
    await audit(deps, call, { isSecurity: true });
    if (!(await openConsoleLink(db, token, secret))) return answerUsed(ctx);
    if (before !== undefined) await endConsoleSession(db, before);
    // The browser's Origin names https if no proxy does.
    const isSecure =
      publicOrigin(ctx.req, config).startsWith('https:') || ctx.get('origin').startsWith('https:');
    ctx.set('Set-Cookie', sessionCookie(secret, isSecure));
    redirect(ctx, '/console');
  });
}

function answerUsed(ctx: StepContext<unknown>): void {
  ctx.status = 401;
  const body = howToGetALink('This link has been used, or is older than 15 minutes. Please get a new one.');
  answerPage(ctx, { title: 'Open the console', body });
}

const askToSwitch = (from: string, to: string, fields: Piece): Piece => html`
<p>You are signed in to <strong>${from}</strong>. This link opens <strong>${to}</strong>.</p>
<form method="post" action="/console/open" class="stack">
${fields}<button>Leave ${from} and open ${to}</button>
</form>
<p><a href="/console">Stay in ${from}</a></p>`;
