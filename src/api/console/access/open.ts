/** Begins and ends sessions: the page of a link, its form, and signing out. */
import type { Middleware } from 'koa';
import { endConsoleSession, openConsoleLink } from '../../../redis/records/consoleSessions.js';
import { ApiError } from '../../apiError.js';
import { composeSteps, type Step } from '../../composeSteps.js';
import type { ApiDeps } from '../../deps.js';
import type { Form } from '../../steps/body/form.js';
import { readForm } from '../../steps/body/readForm.js';
import { consoleHeaders } from '../headers.js';
import { html, type Piece } from '../html.js';
import { answerPage } from '../layout.js';
import { answerErrorsAsPages } from '../pageSteps.js';
import { isSameOrigin, publicOrigin } from './publicOrigin.js';
import { endedCookies, secretOf, sessionCookie } from './session.js';

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

/** POST /console/open: uses up the link and begins a session. */
export function openEndpoint(deps: ApiDeps): Middleware[] {
  return composeSteps<{ form: Form }>(consoleHeaders, answerErrorsAsPages, readForm, async (ctx) => {
    if (!isSameOrigin(ctx.req, deps.config)) throw otherSite();
    const given = ctx.state.form.get('link') ?? '';
    const secret = await openConsoleLink(deps.db, given.slice(given.lastIndexOf('#') + 1));
    if (secret === undefined) {
      ctx.status = 401;
      const body = howToGetALink(
        'This link has been used, or is older than 15 minutes. Please get a new one.',
      );
      answerPage(ctx, { title: 'Open the console', body });
      return;
    }
    // The browser's Origin names https if no proxy does.
    const isSecure =
      publicOrigin(ctx.req, deps.config).startsWith('https:') || ctx.get('origin').startsWith('https:');
    ctx.set('Set-Cookie', sessionCookie(secret, isSecure));
    ctx.status = 303;
    ctx.set('Location', '/console');
  });
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
