/**
 * A door for browsers, of publishers or of operators: the link that lets one in, the session that the link opens, its cookie, and the
 * first steps of each page and form.
 */
import { timingSafeEqual } from 'node:crypto';
import type Router from '@koa/router';
import type { Middleware } from 'koa';
import { ApiError } from '../http/apiError.js';
import { findsAgain, readForm } from '../http/body.js';
import type { Parameters } from '../http/query.js';
import type { Db } from '../redis/connection/db.js';
import { randomSecret } from '../redis/records/accounts.js';
import { linkMs, type Sessions, sessionMs } from '../redis/records/sessions.js';
import { type Reached, sessionCookies } from './cookies.js';
import { html, type Piece } from './html.js';
import {
  actionForm,
  composePage,
  type Frame,
  formTokenField,
  hidden,
  type PageAnswer,
  type PageContext,
} from './page.js';

export interface Visit<Session> {
  ctx: PageContext;
  session: Session;
  /** The token that every form of the session contains. */
  formToken: string;
  /** @throws ApiError 401 if the session has ended meanwhile */
  stands(): Promise<void>;
}

export interface Sent {
  form: Parameters;
}

interface Door<Session> {
  db: Db;
  path: '/console' | '/desk';
  frame: Frame;
  reached: Reached;
  sessions: Omit<Sessions<never, Session>, 'createLink'>;
  /** Returns what else stands around the pages of a session. */
  around(session: Session): { links: Frame['back'][]; who: Piece };
  /** How to come in, for whoever has no session. */
  how: Piece;
  /** Writes into the audit that a session begins, before it does, or that it has not begun after all. */
  record(
    ctx: PageContext,
    session: Session,
    secret: string,
    what: 'opened' | 'link used before',
  ): Promise<unknown>;
  /** Names two sessions if the browser must be asked before the second one ends the first. */
  apart?(now: Session, next: Session): [now: string, next: string] | undefined;
  signedOut(ctx: PageContext, session: Session | undefined): PageAnswer;
}

export function createDoor<Session>(door: Door<Session>) {
  const { db, path, frame, sessions } = door;
  const cookies = sessionCookies(`${path.slice(1)}_session`, door.reached);
  /** The page that a browser without a session asked for, where it comes once it is let in. */
  const asked = sessionCookies(`${path.slice(1)}_page`, door.reached);

  const outside = (answer: (ctx: PageContext) => PageAnswer): Middleware => composePage(frame, answer);

  /**
   * Composes a page of a session; without one a browser comes to the page that says how to get one.
   * @param sentWithout called for a form that was sent without one
   */
  const page = (
    answer: (visit: Visit<Session>) => PageAnswer,
    sentWithout?: (ctx: PageContext) => Promise<never>,
  ): Middleware =>
    outside(async (ctx) => {
      const secret = cookies.secretOf(ctx);
      const session = await sessions.find(db, secret);
      const stands = findsAgain(async () => {
        if ((await sessions.find(db, secret)) === undefined) throw sessionOver(ctx);
      });
      const isEntering = enteredMark.test(ctx.url);
      const url = ctx.url.replace(enteredMark, '');
      if (session !== undefined && isEntering) return redirect(ctx, url);
      if (session !== undefined) {
        const formToken = cookies.formTokenOf(secret);
        ctx.state.frame.session = { ...door.around(session), signOut: `${path}/sign_out`, formToken };
        return answer({ ctx, session, formToken, stands });
      }
      if (isPart(ctx)) throw sessionOver(ctx);
      if (sentWithout) return sentWithout(ctx);
      if (ctx.method === 'GET') asked.begin(ctx, Buffer.from(url).toString('base64url'), linkMs);
      // A session that has just begun sent its cookie, unless the browser has refused it.
      return redirect(ctx, `${path}/open${isEntering ? '?cookie=refused' : ''}`);
    });

  /** Composes the answer to a form that a page of this session sent. @throws ApiError 403 for any other form */
  const form = (answer: (visit: Visit<Session> & Sent) => PageAnswer): Middleware =>
    page(async (visit) => {
      const form = await sentForm(visit.ctx, visit.formToken);
      if (!isSentBy(form, visit.formToken)) throw notOfSession(visit.ctx);
      await visit.stands();
      return answer({ ...visit, form });
    }, refuseSent);

  /** Reads a form. An error shows it again: what somebody has written is not lost, also without script. @param formToken empty without a session */
  async function sentForm(ctx: PageContext, formToken: string, around: Piece = ''): Promise<Parameters> {
    cookies.requireSameOrigin(ctx);
    const form = await readForm(ctx.req, formToken !== '');
    ctx.state.frame.sent = { labels: {}, form: () => [around, formAgain(ctx.path, formToken, form)] };
    return form;
  }

  async function refuseSent(ctx: PageContext): Promise<never> {
    const signIn = html`<p><a href="${path}/open" target="_blank">Sign in, in another tab</a></p>`;
    await sentForm(ctx, '', signIn);
    throw sessionOver(ctx);
  }

  /** Uses up a link for a session, which ends the browser's former one. */
  async function enter(ctx: PageContext, token: string, session: Session): Promise<undefined> {
    const secret = randomSecret();
    await door.record(ctx, session, secret, 'opened');
    if (!(await sessions.openLink(db, token, secret))) {
      await door.record(ctx, session, secret, 'link used before');
      throw linkUsed();
    }
    await sessions.end(db, cookies.secretOf(ctx));
    cookies.begin(ctx, secret, sessionMs);
    const page = Buffer.from(asked.secretOf(ctx), 'base64url').toString();
    if (page !== '') asked.end(ctx);
    // Another site of the domain may have set the cookie.
    const to = /^\/(console|desk)[/?][!-~]*$/.test(page) ? page : path;
    return redirect(ctx, `${to}${to.includes('?') ? '&' : '?'}entered`);
  }

  /**
   * Opens a link. While another session is open that the link would end, it asks first: otherwise the sender of the link could have
   * its reader act in the sender's account.
   */
  async function open(ctx: PageContext) {
    cookies.requireSameOrigin(ctx);
    const sent = await readForm(ctx.req);
    // The token of a link stands after `#`; other text of a message may have been pasted with the link.
    const [token = ''] = /(?<![\w-])[\w-]{43}(?![\w-])/.exec(sent.get('link') ?? '') ?? [];
    const link = await sessions.findLink(db, token);
    if (link === undefined) throw linkUsed();
    const secret = cookies.secretOf(ctx);
    const session = door.apart && (await sessions.find(db, secret));
    const names = session && door.apart?.(session, link);
    const formToken = cookies.formTokenOf(secret);
    if (names === undefined || isSentBy(sent, formToken)) return enter(ctx, token, link);
    const body = html`
<p>You are signed in to <strong>${names[0]}</strong>. This link opens <strong>${names[1]}</strong>.</p>
<form method="post" action="${path}/open" class="stack">
${hidden('link', token)}${formTokenField(formToken)}
<button>Leave ${names[0]} and open ${names[1]}</button>
</form>
<p><a href="${path}">Stay in ${names[0]}</a></p>`;
    return { title: 'Open another account', body };
  }

  /** Ends the session immediately, for every copy of its cookie. */
  async function signOut(ctx: PageContext) {
    cookies.requireSameOrigin(ctx);
    const secret = cookies.secretOf(ctx);
    const session = await sessions.find(db, secret);
    await sessions.end(db, secret);
    cookies.end(ctx);
    return door.signedOut(ctx, session);
  }

  /** The script sends the token after `#`; without a token the page says how to come in. */
  const askForLink = (ctx: PageContext) => ({
    title: `Open the ${path.slice(1)}`,
    body: html`
<p>${ctx.querystring === 'cookie=refused' ? 'Your browser has refused the cookie of your session. Let it take cookies of this address, then get a new link.' : 'You are not signed in, or your session has ended.'}</p>
<form method="post" action="${path}/open" class="stack" data-open>
${door.how}
<label for="link">Link</label>
<input id="link" name="link" autocomplete="off" spellcheck="false" required>
<button>Open</button>
</form>`,
  });

  function mount(router: Router): void {
    router.get(`${path}/open`, outside(askForLink));
    router.post(`${path}/open`, outside(open));
    router.post(`${path}/sign_out`, outside(signOut));
  }

  return { outside, page, form, enter, mount };
}

/** Ends the address to which a browser comes at once with its new session, and no other. */
const enteredMark = /[?&]entered$/;

const sessionOver = (ctx: PageContext): ApiError => {
  const next = isPart(ctx)
    ? ': sign in again in another tab, then reload this page'
    : ' below: sign in, then send it again';
  const what = 'Your session has ended, and nothing was done. What you have written is kept';
  return new ApiError('invalid_token', what + next);
};
const notOfSession = (ctx: PageContext): ApiError => {
  const what = 'This form was not sent by a page of your session, which may have begun since';
  const next = isPart(ctx) ? 'reload the page' : 'look at it';
  const says = `${what}. What you have written is kept: ${next} and send it again`;
  return new ApiError('insufficient_scope', says);
};

/** Asked for by a page, for a part of itself: the rest of it stays, with what somebody may have written. */
const isPart = (ctx: PageContext): boolean => ctx.get('HX-Request') === 'true';

/** What people write themselves; the rest of a form is chosen, or given by its page. */
const written = new Map([
  ['url', 'URL'],
  ['reason', 'Why'],
  ['q', 'What to find'],
]);

function formAgain(action: string, formToken: string, form: Parameters): Piece {
  const sent = [...form].filter(([name]) => name !== 'form_token');
  const given = sent.filter(([name]) => !written.has(name));
  const shown = given.map(([name, value]) => html`<dt>${name.replaceAll('_', ' ')}</dt><dd>${value}</dd>`);
  const fields = sent.map(([name, value]) => {
    const label = written.get(name);
    return label === undefined
      ? hidden(name, value)
      : html`<div><label for="again-${name}">${label}</label><input id="again-${name}" name="${name}" value="${value}" maxlength="2048" autocomplete="off"></div>`;
  });
  return [
    shown.length > 0 && html`<dl class="facts">${shown}</dl>`,
    actionForm(action, formToken, 'Send it again', fields),
  ];
}

const linkUsed = () =>
  new ApiError('invalid_token', 'This link has been used, or is older than 15 minutes. Please get a new one');

/** Returns whether a page of the session with this form token sent the form. */
function isSentBy(form: Parameters, formToken: string): boolean {
  const [given, wanted] = [Buffer.from(form.get('form_token') ?? ''), Buffer.from(formToken)];
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

export function redirect(ctx: Pick<PageContext, 'status' | 'set'>, to: string): undefined {
  ctx.status = 303;
  ctx.set('Location', to);
}
