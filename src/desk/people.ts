/** People at the desk: their door, and the first steps of each page. */
import type { Middleware } from 'koa';
import { createDoor, type DoorState } from '../api/console/door.js';
import { html } from '../api/console/html.js';
import { answerPage, type Frame } from '../api/console/page.js';
import type { Services, Step, StepContext } from '../api/step.js';
import type { Parameters } from '../api/steps/query.js';
import type { Operator } from '../operator/operation.js';
import { recordChange } from '../redis/records/audit.js';
import { type Person, personSessions } from '../redis/records/operatorAccess.js';
import { answerRefusals, operatorOf } from './calls.js';
import { isProviderGiven, reachedOf, signOutUrl } from './signIn.js';

const frame: Frame = { product: 'Operators’ desk', back: { name: 'Now', href: '/desk' } };

const links = [
  frame.back,
  { name: 'Find', href: '/desk/find' },
  { name: 'Audit', href: '/desk/audit' },
  { name: 'All operations', href: '/desk/do' },
];

export const whoIs = ({ name, how }: Person): string => `${name} (${how})`;

export const deskDoor = (services: Services) =>
  createDoor<Person>({
    db: services.db,
    path: '/desk',
    frame,
    reached: reachedOf(services),
    sessions: personSessions,
    around: ({ name, role }) => ({ links, who: html`${name} <span class="badge">${role}</span>` }),
    how: html`${isProviderGiven(services.config) && html`<p><a class="button" href="/desk/sign_in">Sign in with your company’s account</a></p>`}
<p>Somebody with a shell on the service’s machines can make a link that opens this desk once, within 15 minutes: <code>npm run -s operator -- desk --name YOU --role support</code></p>`,
    record(_, person) {
      const opened = { what: 'desk opened', target: 'desk', before: null, after: { role: person.role } };
      return services.db.durably((own) => recordChange(own, { who: whoIs(person), ...opened })).safe;
    },
    async signedOut(ctx, person) {
      const there = person?.how === 'signed in' ? await signOutUrl(services.config) : undefined;
      const body = html`<p>You are signed out of the desk.</p>
${there && html`<p><a class="button" href="${there}">Sign out of your company’s account too</a></p>`}
<p><a href="/desk/open">Come in again</a></p>`;
      answerPage(ctx, { title: 'Signed out', body });
    },
    firstSteps: [answerRefusals as Step],
  });

export interface PersonState extends DoorState<Person> {
  /** Warnings of what was done for this answer. */
  warnings: string[];
  /** Returns what operations work with, for this person. */
  operator(reason?: string): Operator;
}

/** Answers a request of a session. */
export type DeskPage<State = PersonState> = (ctx: StepContext<State>, services: Services) => unknown;

const startWork =
  (services: Services): Step<PersonState> =>
  ({ state }, next) => {
    const { session } = state;
    const own = { role: session.role, who: whoIs(session), warnings: [] };
    state.warnings = own.warnings;
    state.operator = (reason) => operatorOf(services, own, reason);
    return next();
  };

/** Composes a page of a session. */
export const deskPage = (services: Services, answer: DeskPage): Middleware[] =>
  deskDoor(services).page(startWork(services), (ctx) => answer(ctx, services));

/** Composes the answer to a form that a page of this session sent. */
export const deskForm = (
  services: Services,
  answer: Step<PersonState & { form: Parameters }>,
): Middleware[] => deskDoor(services).form(startWork(services), answer);
