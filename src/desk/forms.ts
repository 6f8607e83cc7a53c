/** The form of an operation, and its answer as a page shows it. */
import type Router from '@koa/router';
import type { z } from 'zod';
import { badParameter } from '../http/apiError.js';
import { type Parameters, parseParameters } from '../http/query.js';
import { reasonText, toJsonSchema } from '../http/schemas.js';
import { nameOf, type Operation, unlimited } from '../operator/operation.js';
import { groups, operations } from '../operator/operations.js';
import { capital, formGroups, sentence } from '../operator/terminal.js';
import { isAllowed } from '../redis/records/operatorAccess.js';
import type { Sent } from '../web/door.js';
import { type Html, html, type Piece } from '../web/html.js';
import { actionForm, hidden, noResult } from '../web/page.js';
import { checkedInput, requireRole } from './calls.js';
import { csvOf } from './csv.js';
import { requireInForce, type Texts, was, writtenIn } from './inForce.js';
import { shownParts, siteUrl } from './names.js';
import { type DeskDoor, type DeskPage, type DeskVisit, whoIs } from './people.js';

export const pathOf = (operation: Operation): string => `/desk/do/${nameOf(operation).replaceAll(' ', '/')}`;

interface FormOptions {
  /** Values that the form does not ask for. */
  given?: Texts;
  typed?: Texts;
  /** What is in force: it is shown where nothing else is typed, and sent hidden too. */
  present?: Texts;
  /** Members that are chosen from a list, by what each value shows. */
  choices?: Readonly<Record<string, Texts>>;
  /** There is nothing that it could do now: only `before` is shown. */
  isIdle?: boolean;
  /** What follows from it, said before it is done. */
  before?: Piece;
  wrong?: string;
}

/** The desk counts first what such an operation would do. */
const countsFirst = ({ input }: Operation): boolean => 'dry_run' in input.shape;

const buttonOf = (operation: Operation): string => operation.button ?? capital(nameOf(operation));

/**
 * Builds the form of an operation for a person: a field for each member of the input, and one for the reason of a change. Its answer
 * appears in the page's #result. Nothing for a role that may not carry it out.
 */
export function operationForm(
  { session, formToken }: Pick<DeskVisit, 'session' | 'formToken'>,
  operation: Operation,
  { given = {}, typed = {}, present = {}, choices = {}, isIdle, before, wrong }: FormOptions = {},
): Piece {
  if (!isAllowed(session.role, operation.role)) return '';
  if (isIdle) return html`<p>${before}</p>`;
  const id = (member: string) => `${nameOf(operation).replaceAll(' ', '-')}-${member}`;
  const members = Object.entries(operation.input.shape as Record<string, z.ZodType>).filter(
    ([member]) => member !== 'dry_run',
  );
  const fields = members.map(([member, schema]) => {
    const value = given[member];
    if (value !== undefined) return hidden(member, value);
    const now = present[member];
    const shown = { typed: typed[member] ?? now, choices: choices[member], isWrong: member === wrong };
    return [field(id(member), member, schema, shown), now !== undefined && hidden(was + member, now)];
  });
  const action = pathOf(operation);
  const name = buttonOf(operation);
  const button = countsFirst(operation) ? 'Count' : name;
  if (!operation.changes)
    return html`<form class="row" action="${action}">${fields}<button>${button}</button></form>`;
  const one = (member: string, label: string, attributes: Piece = '') =>
    html`<div><label for="${id(member)}">${label}</label><input id="${id(member)}" name="${member}" value="${typed[member]}" maxlength="256" autocomplete="off" required ${attributes} ${member === wrong && marked}></div>`;
  const isFinal = operation.group === 'Delete';
  const what = subjectOf(operation, { ...typed, ...given });
  const typedOut =
    isFinal && one('typed', `Type ${what ?? 'its name again'} to confirm`, html`spellcheck="false"`);
  const why =
    given.reason === undefined
      ? one('reason', `Why ${name.charAt(0).toLowerCase()}${name.slice(1)}? (one line, for the audit)`)
      : hidden('reason', given.reason);
  return [
    before && html`<p>${before}</p>`,
    actionForm(action, formToken, button, [fields, typedOut, why], isFinal),
  ];
}

/** What an operation is about: the last that its input names. */
const subjectOf = ({ input }: Operation, asked: Texts): string | undefined =>
  asked[Object.keys(input.shape).at(-1) ?? ''];

const marked = html`aria-invalid="true" aria-describedby="result" autofocus`;

const anchorOf = (name: string): string => name.replaceAll(' ', '-');

/** The address of the form of an operation on a site, by the operation's name. */
export const formUrl = (clientToken: string, name: string): string =>
  `${siteUrl(clientToken)}/actions#${anchorOf(name)}`;

/**
 * Builds the cards of every change about something, in groups, as far as the person may make it.
 * @param about members of the input that the forms do not ask for
 * @param own what the forms show, by the names of their operations
 */
export async function cardsOf(
  visit: DeskVisit,
  about: Texts,
  own: Readonly<Record<string, FormOptions | undefined>> = {},
  isMeant = ({ input }: Operation) => !('platform_id' in input.shape),
): Promise<Piece> {
  const isAbout = (one: Operation) =>
    one.changes && isMeant(one) && Object.keys(one.input.shape).some((member) => member in about);
  const filling = operations
    .filter(isAbout)
    .map(async (one) => ({ one, present: await one.inForce?.(visit.operator(), about) }));
  const all = await Promise.all(filling);
  const groups = formGroups.map((group) => {
    const cards = all
      .filter(({ one }) => (one.group ?? 'Delivery') === group)
      .map(({ one, present }) => {
        const form = operationForm(visit, one, { given: about, present, ...own[nameOf(one)] });
        const [id, name] = [anchorOf(nameOf(one)), buttonOf(one)];
        return (
          form !== '' &&
          html`<section class="card" id="${id}" aria-label="${name}"><h3>${name}</h3><p>${sentence(one.does)}</p>${form}</section>`
        );
      });
    return (
      cards.some(Boolean) && html`<h2>${group}</h2><div class="cards ${group.toLowerCase()}">${cards}</div>`
    );
  });
  return groups.some(Boolean)
    ? [noResult, groups]
    : html`<div class="notice"><p>Your role may look, but not change or send anything.</p></div>`;
}

const labelOf = (member: string, schema: z.ZodType): string =>
  capital(schema.description ?? member.replaceAll('_', ' '));

function field(
  id: string,
  member: string,
  schema: z.ZodType,
  { typed = '', choices, isWrong }: { typed?: string; choices?: Texts; isWrong: boolean },
): Html {
  const absent = schema.safeParse(undefined);
  const isRequired = !absent.success;
  const label = labelOf(member, schema);
  const { type, enum: words } = toJsonSchema(schema);
  if (type === 'boolean')
    return html`<div><label><input type="checkbox" name="${member}" value="true" ${typed !== '' && html`checked`}> ${label}</label></div>`;
  const listed = Array.isArray(words)
    ? words.map((one) => [String(one), String(one)])
    : Object.entries(choices ?? {});
  const control =
    Array.isArray(words) || choices
      ? html`<select id="${id}" name="${member}" ${isWrong && marked}>${absent.success && absent.data === undefined && !choices && html`<option value="">any</option>`}${listed.map(([value = '', shown]) => html`<option value="${value}" ${value === (typed || absent.data) && html`selected`}>${shown}</option>`)}</select>`
      : html`<input id="${id}" name="${member}" value="${typed}" maxlength="2048" autocomplete="off" spellcheck="false" ${isRequired && html`required`} ${isWrong && marked}>`;
  return html`<div><label for="${id}">${label}</label>${control}</div>`;
}

/** Returns the fields that a person has filled in, without the blanks around what is pasted. */
const filledIn = (fields: Parameters): Record<string, string> =>
  Object.fromEntries([...fields].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value));

/** GET /desk/do: the form of every operation that the person may carry out. */
export const allOperations: DeskPage = ({ session }) => {
  const allowed = operations.filter(({ role }) => isAllowed(session.role, role));
  const groupOf = (one: Operation) =>
    groups[nameOf(one).split(' ')[0] ?? ''] ?? 'the service and its accounts';
  const body = [...new Set(allowed.map(groupOf))].map(
    (does) =>
      html`<h2>${capital(does)}</h2><ul>${allowed
        .filter((one) => groupOf(one) === does)
        .map((one) => html`<li><a href="${pathOf(one)}">${buttonOf(one)}</a>: ${one.does}</li>`)}</ul>`,
  );
  return { title: 'All operations', body };
};

export function mountOperations(router: Router, door: DeskDoor): void {
  for (const operation of operations) {
    router.get(pathOf(operation), door.page(operationPage(operation)));
    if (operation.changes) router.post(pathOf(operation), door.form(operationAnswer(operation)));
    if (operation.list) router.get(`${pathOf(operation)}.csv`, door.page(listAsCsv(operation)));
  }
}

const shownAtMost = 200;

/** Shows the form of an operation; of a read, with its answer if everything that it needs is given. */
const operationPage =
  (operation: Operation): DeskPage =>
  async (visit, { db }) => {
    const { ctx, session, operator } = visit;
    requireRole(operation, session.role, whoIs(session));
    // No link confirms a deletion.
    const { cursor: after, typed: _, ...given } = filledIn(parseParameters(ctx.querystring));
    ctx.state.frame.back = { name: nameOf(operation), href: ctx.path };
    const body = async (): Promise<Piece> => {
      const form = operationForm(visit, operation, { typed: given });
      if (operation.changes) return [form, noResult];
      if (ctx.querystring === '' && !operation.input.safeParse({}).success) return form;
      const input = checkedInput(operation, given);
      const page = { limit: shownAtMost, after, isNewest: true };
      const { value, shown, next } = await operation.run(operator(), input, page);
      const isEnd = after !== undefined && Array.isArray(value) && value.length === 0;
      const here = (path: string, query: Record<string, string>) => `${path}?${new URLSearchParams(query)}`;
      return [
        form,
        html`<div id="result">${isEnd ? html`<p>There are no further entries.</p>` : await shownParts(db, shown)}</div>`,
        next && html`<p><a href="${here(ctx.path, { ...given, cursor: next })}" rel="next">More</a></p>`,
        operation.list &&
          html`<p><a href="${here(`${ctx.path}.csv`, given)}">${'limit' in input ? `The newest ${String(input.limit)}` : 'All of it'} as CSV</a></p>`,
      ];
    };
    return {
      title: buttonOf(operation),
      parent: { name: 'All operations', href: '/desk/do' },
      body: [html`<p>${sentence(operation.does)}</p>`, await body()],
    };
  };

const listAsCsv =
  (operation: Operation): DeskPage =>
  async ({ ctx, session, operator, warnings }) => {
    requireRole(operation, session.role, whoIs(session));
    const input = checkedInput(operation, filledIn(parseParameters(ctx.querystring)));
    const { value } = await operation.run(operator(), input, { ...unlimited, isNewest: true });
    ctx.attachment(`${operation.list}.csv`);
    ctx.type = 'text/csv; charset=utf-8';
    const columns = Object.keys((operation.answers as z.ZodObject).shape);
    const [first = ''] = columns;
    const told = warnings.map((line) => ({ [first]: line }));
    ctx.body = csvOf(columns, [...told, ...(value as Record<string, unknown>[])]);
    return undefined;
  };

const operationAnswer =
  (operation: Operation): DeskPage<DeskVisit & Sent> =>
  async ({ ctx, session, operator, form, formToken, warnings }, { db }) => {
    requireRole(operation, session.role, whoIs(session));
    const { form_token: _, ...sent } = filledIn(form);
    const isFilled = Object.keys(sent).some((name) => name.startsWith(was));
    const present = isFilled ? await operation.inForce?.(operator(), sent) : undefined;
    const written = writtenIn(sent);
    const { reason = '', counted, typed, ...asked } = written;
    const labels = Object.entries(operation.input.shape as Record<string, z.ZodType>);
    ctx.state.frame.sent = {
      labels: {
        reason: 'Why',
        typed: 'To confirm',
        ...Object.fromEntries(labels.map(([member, schema]) => [member, labelOf(member, schema)])),
      },
      form: (wrong) => operationForm({ session, formToken }, operation, { typed: written, present, wrong }),
    };
    if (present) requireInForce(present, sent, asked);
    if (!reasonText.safeParse(reason).success)
      throw badParameter('reason: is missing, or not one line of at most 200 characters');
    if (operation.group === 'Delete' && typed !== subjectOf(operation, asked))
      throw badParameter('typed: is not the name of what is to be deleted');
    // What is stopped owes nothing.
    const isOnlyCounted = countsFirst(operation) && counted === undefined && asked.stop === undefined;
    const all = isOnlyCounted ? { ...asked, dry_run: 'true' } : asked;
    const input = checkedInput(operation, all);
    const done = await operation.run(operator(reason), input, unlimited);
    const { shown, failed, tone = failed === undefined ? 'good' : 'bad' } = done;
    const next = isOnlyCounted && countedForm(operation, formToken, { ...asked, reason }, done.value);
    return {
      title: buttonOf(operation),
      body: html`<div id="result" class="notice ${tone}" role="status" tabindex="-1">${await shownParts(db, [...(failed ? [failed] : []), ...warnings, ...shown])}${next}</div>`,
    };
  };

/** Builds the form that does what was counted: in the same span of time, however much later it is sent. */
function countedForm(operation: Operation, formToken: string, typed: Record<string, string>, value: unknown) {
  type Counted = { count: number; at_least?: boolean; since: string | null; until: string };
  const { count, at_least: isAtLeast, since, until } = value as Counted;
  if (count === 0 && isAtLeast !== true) return '';
  const times = { ...(since !== null && { since }), until };
  const given = Object.entries({ ...typed, ...times, counted: 'true' });
  const fields = given.map(([name, one]) => hidden(name, one));
  const [, verb = ''] = nameOf(operation).split(' ');
  return [actionForm(pathOf(operation), formToken, `${capital(verb)} ${count.toLocaleString('en')}`, fields)];
}
