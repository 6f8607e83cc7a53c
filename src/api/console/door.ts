/**
 * A door for browsers, of publishers or of operators: the link that lets one in, the session that the link opens, and the first steps
 * of each page and form.
 */
import type Router from '@koa/router';
import type { Middleware } from 'koa';
import type { Db } from '../../redis/connection/db.js';
import { randomSecret } from '../../redis/records/accounts.js';
import { type Sessions, sessionMs } from '../../redis/records/sessions.js';
import { ApiError } from '../apiError.js';
import type { Step, StepContext } from '../step.js';
import { readForm } from '../steps/body.js';
import type { Parameters } from '../steps/query.js';
import { html, type Piece } from './html.js';
import { answerPage, composePage, type Frame, type Framed, formTokenField } from './page.js';
import { isSentBy, type Reached, redirect, sessionCookies } from './sessionCookie.js';

/** The state of a page of a session. */
export interface DoorState<Session> extends Framed {
  session: Session;
  /** The token that every form of the session contains. */
  formToken: string;
}

interface Form {
  form: Parameters;
}

interface Door<Session> {
  db: Db;
  /** The address of its first page. */
  path: '/console' | '/desk';
  /** What stands around its pages. */
  frame: Frame;
  reached: Reached;
  sessions: Omit<Sessions<never, Session>, 'createLink' | 'begin'>;
  /** Returns what else stands around the pages of a session. */
  around(session: Session): { links: Frame['back'][]; who: Piece };
  /** How to come in, for whoever has no session. */
  how: Piece;
  /** Writes into the audit that a session begins, before it does. */
  record(ctx: StepContext<Framed>, session: Session, secret: string): Promise<unknown>;
  /** Names two sessions if the browser must be asked before the second one ends the first. */
  apart?(now: Session, next: Session): [now: string, next: string] | undefined;
  signedOut(ctx: StepContext<Framed>, session: Session | undefined): unknown;
  /** Of every page. */
  firstSteps?: Step[];
}

export function createDoor<Session>(door: Door<Session>) {
  const { db, path, frame, sessions, firstSteps = [] } = door;
  const cookies = sessionCookies(`${path.slice(1)}_session`, door.reached);

  /** Composes a page outside a session. */
  const outside = (...steps: Step<Framed>[]): Middleware[] => composePage(frame, ...firstSteps, ...steps);

  /** Finds the session; without one a browser comes to the page that says how to get one. */
  const requireSession: Step<DoorState<Session>> = async (ctx, next) => {
    const secret = cookies.secretOf(ctx);
    const session = await sessions.find(db, secret);
    if (session !== undefined) {
      const formToken = cookies.formTokenOf(secret);
      const around = { ...door.around(session), signOut: `${path}/sign_out`, formToken };
      Object.assign(ctx.state, { session, formToken, frame: { ...frame, session: around } });
      await next();
    } else if (ctx.get('HX-Request') === 'true') {
      // htmx would put the target of a redirect into a part of this page.
      ctx.status = 401;
      ctx.set('HX-Redirect', `${path}/open`);
      ctx.body = 'signed out';
    } else {
      redirect(ctx, `${path}/open`);
    }
  };

  /** Reads the form, as state.form, that a page of this session sent. @throws ApiError 403 */
  const requireOwnForm: Step<DoorState<Session> & Form> = async (ctx, next) => {
    ctx.state.form = await readForm(ctx.req);
    if (!isSentBy(ctx.state.form, ctx.state.formToken))
      throw new ApiError('insufficient_scope', 'This form was not sent by a page of your session');
    await next();
  };

  /** Composes a page of a session. */
  const page = <State extends DoorState<Session>>(...steps: Step<State>[]): Middleware[] =>
    outside(requireSession as Step<Framed>, ...(steps as Step<Framed>[]));

  /** Composes the answer to a form. @param steps.0 what the form is about */
  const form = <State extends DoorState<Session> & Form>(...steps: Step<State>[]): Middleware[] =>
    page<State>(cookies.requireSameOrigin as Step<State>, requireOwnForm as Step<State>, ...steps);

  /**
   * Begins a session, which ends the browser's former one.
   * @param keep stores it under its secret; false: the link was used meanwhile
   */
  async function begin(
    ctx: StepContext<Framed>,
    session: Session,
    keep: (secret: string) => Promise<unknown>,
  ): Promise<void> {
    const secret = randomSecret();
    await door.record(ctx, session, secret);
    if ((await keep(secret)) === false) throw linkUsed();
    await sessions.end(db, cookies.secretOf(ctx));
    cookies.begin(ctx, secret, sessionMs);
    redirect(ctx, path);
  }

  /**
   * Uses up a link. While another session is open that the link would end, it asks first: otherwise the sender of the link could have
   * its reader act in the sender's account.
   */
  const open: Step<Framed> = async (ctx) => {
    const sent = await readForm(ctx.req);
    const given = sent.get('link') ?? '';
    // The token stands after `#`.
    const token = given.slice(given.lastIndexOf('#') + 1);
    const link = await sessions.findLink(db, token);
    if (link === undefined) throw linkUsed();
    const secret = cookies.secretOf(ctx);
    const session = door.apart && (await sessions.find(db, secret));
    const names = session && door.apart?.(session, link);
    const formToken = cookies.formTokenOf(secret);
    if (names === undefined || isSentBy(sent, formToken))
      return begin(ctx, link, (made) => sessions.openLink(db, token, made));
    const body = html`
<p>You are signed in to <strong>${names[0]}</strong>. This link opens <strong>${names[1]}</strong>.</p>
<form method="post" action="${path}/open" class="stack">
<input type="hidden" name="link" value="${token}">${formTokenField(formToken)}
<button>Leave ${names[0]} and open ${names[1]}</button>
</form>
<p><a href="${path}">Stay in ${names[0]}</a></p>`;
    answerPage(ctx, { title: 'Open another account', body });
  };

  /** Ends the session immediately, for every copy of its cookie. */
  const signOut: Step<Framed> = async (ctx) => {
    const secret = cookies.secretOf(ctx);
    const session = await sessions.find(db, secret);
    await sessions.end(db, secret);
    cookies.end(ctx);
    await door.signedOut(ctx, session);
  };

  /** The script sends the token after `#`; without a token the page says how to come in. */
  const askForLink: Step<Framed> = (ctx) => {
    const body = html`
<p>You are not signed in, or your session has ended. A form that was sent since has changed nothing.</p>
<form method="post" action="${path}/open" class="stack" data-open>
${door.how}
<label for="link">Link</label>
<input id="link" name="link" autocomplete="off" spellcheck="false" required>
<button>Open</button>
</form>`;
    answerPage(ctx, { title: `Open the ${path.slice(1)}`, body });
  };

  /** Mounts how browsers come in and go. */
  function mount(router: Router): void {
    router.get(`${path}/open`, ...outside(askForLink));
    router.post(`${path}/open`, ...outside(cookies.requireSameOrigin, open));
    router.post(`${path}/sign_out`, ...outside(cookies.requireSameOrigin, signOut));
  }

  return { outside, page, form, begin, mount };
}

const linkUsed = () =>
  new ApiError('invalid_token', 'This link has been used, or is older than 15 minutes. Please get a new one');
