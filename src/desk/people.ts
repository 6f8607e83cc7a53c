/** People at the desk: the link or the identity provider that lets them in, their sessions, and the first steps of each page. */
import type { Middleware } from 'koa';
import { askToOpen, linkForm, linkUsed, readLink, readOwnForm } from '../api/console/access.js';
import { html } from '../api/console/html.js';
import { answerPage, composePage, type Frame } from '../api/console/page.js';
import { redirect, sessionCookies } from '../api/console/sessionCookie.js';
import type { Services, Step, StepContext } from '../api/step.js';
import type { Parameters } from '../api/steps/query.js';
import type { Operator } from '../operator/operation.js';
import { recordChange } from '../redis/records/audit.js';
import {
  beginPersonSession,
  endPersonSession,
  findPersonSession,
  type Person,
  personSessionMs,
  usePersonLink,
} from '../redis/records/operatorAccess.js';
import { answerRefusals, operatorOf } from './calls.js';
import { isProviderGiven, signOutUrl } from './provider.js';

const frame: Frame = { product: 'Operators’ desk', home: { name: 'Now', href: '/desk' } };

const links = [
  frame.home,
  { name: 'Find', href: '/desk/find' },
  { name: 'Audit', href: '/desk/audit' },
  { name: 'All operations', href: '/desk/do' },
];

export interface PersonState {
  frame: Frame;
  person: Person;
  formToken: string;
  /** Warnings of what was done for this answer. */
  warnings: string[];
  /** Returns what operations work with, for this person. */
  operator(reason?: string): Operator;
}

export const whoIs = ({ name, how }: Person): string => `${name} (${how})`;

/** Where browsers reach the desk. */
export const reachedOf = ({ config }: Pick<Services, 'config'>) => ({
  PUBLIC_URL: config.OPERATOR_URL,
  TRUSTED_PROXIES: config.TRUSTED_PROXIES,
});

const cookiesOf = (services: Services) => sessionCookies('desk_session', reachedOf(services));

/** Composes a page outside a session. */
export const openPage = <State>(...steps: Step<State>[]): Middleware[] =>
  composePage<State>(
    answerRefusals as Step<State>,
    ((ctx, next) => {
      Object.assign(ctx.state as object, { frame });
      return next();
    }) as Step<State>,
    ...steps,
  );

/** Answers a request of a session. */
export type DeskPage<State = PersonState> = (ctx: StepContext<State>, services: Services) => unknown;

/** Composes a page of a session. */
export const deskPage = (services: Services, answer: DeskPage): Middleware[] =>
  openPage<PersonState>(requirePerson(services), (ctx) => answer(ctx, services));

function requirePerson(services: Services): Step<PersonState> {
  const cookies = cookiesOf(services);
  return async (ctx, next) => {
    const secret = cookies.secretOf(ctx);
    const person = await findPersonSession(services.db, secret);
    if (person === undefined) return askToOpen(ctx, '/desk/open');
    const { name, role } = person;
    const formToken = cookies.formTokenOf(secret);
    const who = html`${name} <span class="badge">${role}</span>`;
    const warnings: string[] = [];
    Object.assign(ctx.state, {
      frame: { ...frame, session: { links, who, signOut: '/desk/sign_out', formToken } },
      person,
      formToken,
      warnings,
      operator: (reason?: string) => operatorOf(services, { role, who: whoIs(person), warnings }, reason),
    });
    await next();
  };
}

/** Composes the answer to a form that a page of this session sent. @throws ApiError 403 */
export const deskForm = (
  services: Services,
  answer: (ctx: StepContext<PersonState>, form: Parameters) => unknown,
): Middleware[] =>
  openPage<PersonState>(requirePerson(services), cookiesOf(services).requireSameOrigin, async (ctx) =>
    answer(ctx, await readOwnForm(ctx, ctx.state.formToken)),
  );

/** GET /desk/open: the script sends the token after `#`; without a token the page says how to come in. */
export const openPageOf = ({ config }: Services): Middleware[] =>
  openPage((ctx) => {
    const how = html`${isProviderGiven(config) && html`<p><a class="button" href="/desk/sign_in">Sign in with your company’s account</a></p>`}
<p>Somebody with a shell on the service’s machines can make a link that opens this desk once, within 15 minutes: <code>npm run -s operator -- desk --name YOU --role support</code></p>`;
    answerPage(ctx, { title: 'Open the desk', body: linkForm('/desk/open', how) });
  });

/** POST /desk/open: uses up the link and begins a session, which ends the browser's former one. */
export function openEndpoint(services: Services): Middleware[] {
  return openPage(cookiesOf(services).requireSameOrigin, async (ctx) => {
    const person = await usePersonLink(services.db, (await readLink(ctx)).token);
    if (person === undefined) throw linkUsed();
    await comeIn(services, ctx, person);
  });
}

/** Begins a person's session, which the audit has first. */
export async function comeIn(services: Services, ctx: StepContext<unknown>, person: Person): Promise<void> {
  const { db } = services;
  const cookies = cookiesOf(services);
  const opened = { what: 'desk opened', target: 'desk', before: null, after: { role: person.role } };
  await db.durably((own) => recordChange(own, { who: whoIs(person), ...opened })).safe;
  await endPersonSession(db, cookies.secretOf(ctx));
  cookies.begin(ctx, await beginPersonSession(db, person), personSessionMs);
  redirect(ctx, '/desk');
}

/** POST /desk/sign_out: ends the session immediately, for every copy of its cookie. */
export function signOutEndpoint(services: Services): Middleware[] {
  const cookies = cookiesOf(services);
  return openPage(cookies.requireSameOrigin, async (ctx) => {
    const secret = cookies.secretOf(ctx);
    const person = await findPersonSession(services.db, secret);
    await endPersonSession(services.db, secret);
    cookies.end(ctx);
    const there = person?.how === 'signed in' ? await signOutUrl(services.config) : undefined;
    const body = html`<p>You are signed out of the desk.</p>
${there && html`<p><a class="button" href="${there}">Sign out of your company’s account too</a></p>`}
<p><a href="/desk/open">Come in again</a></p>`;
    answerPage(ctx, { title: 'Signed out', body });
  });
}
