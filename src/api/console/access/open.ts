/** Begins and ends sessions: the page of a link, its form, and signing out. */
import type { Context, Middleware } from 'koa';
import {
  endConsoleSession,
  findConsoleLink,
  findConsoleSession,
  type GrantedAccount,
  newConsoleSecret,
  openConsoleLink,
} from '../../../redis/records/consoleSessions.js';
import { ApiError } from '../../apiError.js';
import { clientAddress } from '../../clientAddress.js';
import { type ApiDeps, composeSteps, type Step } from '../../step.js';
import { audit } from '../../steps/auditCall.js';
import { type Form, readForm } from '../../steps/form.js';
import { consoleHeaders } from '../headers.js';
import { html, type Piece } from '../html.js';
import { answerPage } from '../layout.js';
import { answerErrorsAsPages } from '../pageSteps.js';
import { isSameOrigin, publicOrigin } from './publicOrigin.js';
import { endedCookies, formTokenOf, isEqual, secretOf, sessionCookie } from './session.js';

/** GET /console/open: the script sends the token after `#`; without a token the page says how to get a link. */
export const openPage: Middleware[] = composeSteps(consoleHeaders, async (ctx) => {
  answerPage(ctx, { title: 'Open the console', body: howToGetALink() });
});

const howToGetALink = (notice?: Piece): Piece => html`
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
  return composeSteps<{ form: Form }>(consoleHeaders, answerErrorsAsPages, readForm, async (ctx) => {
    if (!isSameOrigin(ctx.req, config)) throw otherSite();
    const { form } = ctx.state;
    const given = form.get('link') ?? '';
    const token = given.slice(given.lastIndexOf('#') + 1);
    const link = await findConsoleLink(db, token);
    if (link === undefined) return answerUsed(ctx);
    const before = secretOf(ctx, deps);
    const session = before === undefined ? undefined : await findConsoleSession(db, before);
    if (before !== undefined && session !== undefined && session.accountId !== link.accountId) {
      if (!isEqual(form.get('form_token') ?? '', formTokenOf(before))) {
        return answerPage(ctx, {
          title: 'Open another account',
          body: askToSwitch({ session, link, token, formToken: formTokenOf(before) }),
        });
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
    ctx.status = 303;
    ctx.set('Location', '/console');
  });
}

function answerUsed(ctx: Context): void {
  ctx.status = 401;
  const body = howToGetALink('This link has been used, or is older than 15 minutes. Please get a new one.');
  answerPage(ctx, { title: 'Open the console', body });
}

const askToSwitch = ({ session, link, token, formToken }: Switch): Piece => html`
<p>You are signed in to <strong>${session.accountName}</strong>. This link opens <strong>${link.accountName}</strong>.</p>
<form method="post" action="/console/open" class="stack">
<input type="hidden" name="link" value="${token}">
<input type="hidden" name="form_token" value="${formToken}">
<button>Leave ${session.accountName} and open ${link.accountName}</button>
</form>
<p><a href="/console">Stay in ${session.accountName}</a></p>`;

interface Switch {
  session: GrantedAccount;
  link: GrantedAccount;
  token: string;
  formToken: string;
}

/** POST /console/sign_out: ends the session immediately, for every copy of its cookie. */
export function signOutEndpoint(deps: ApiDeps): Middleware[] {
  const signOut: Step = async (ctx) => {
    if (!isSameOrigin(ctx.req, deps.config)) throw otherSite();
    const secret = secretOf(ctx, deps);
    if (secret !== undefined) await endConsoleSession(deps.db, secret);
    ctx.set('Set-Cookie', endedCookies);
    ctx.status = 303;
    ctx.set('Location', '/console/open');
  };
  return composeSteps(consoleHeaders, answerErrorsAsPages, signOut);
}

const otherSite = () => new ApiError('insufficient_scope', 'This form was sent by a page of another site');
