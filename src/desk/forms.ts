/** The form of an operation, and its answer as a page shows it. */
import { Readable } from 'node:stream';
import { setImmediate as nextRound } from 'node:timers/promises';
import type Router from '@koa/router';
import type { z } from 'zod';
import { card } from '../api/console/actions.js';
import { badParameter } from '../http/apiError.js';
import { type Parameters, parseParameters } from '../http/query.js';
import { reasonText, toJsonSchema } from '../http/schemas.js';
import { isNotificationId } from '../ids.js';
import { nameOf, type Operation, unlimited } from '../operator/operation.js';
import { groups, operations } from '../operator/operations.js';
import { capital, givenFacts, type Part, sentence, type Value } from '../operator/terminal.js';
import type { Db } from '../redis/connection/db.js';
import { isAllowed, roles } from '../redis/records/operatorAccess.js';
import type { Sent } from '../web/door.js';
import { type Html, html, type Piece } from '../web/html.js';
import { actionForm, noResult, table } from '../web/page.js';
import { checkedInput, requireRole } from './calls.js';
import { idUnder, type Names, named, namesIn, siteUrl } from './names.js';
import { type DeskDoor, type DeskPage, type DeskVisit, whoIs } from './people.js';

const pathOf = (operation: Operation): string => `/desk/do/${nameOf(operation).replaceAll(' ', '/')}`;

interface FormOptions {
  /** Values that the form does not ask for. */
  given?: Readonly<Record<string, string>>;
  /** What the fields show. */
  typed?: Readonly<Record<string, string>>;
  /** What follows from it, said before it is done. */
  before?: Piece;
}

/** The desk counts first what such an operation would do. */
const isCounted = ({ input }: Operation): boolean => 'dry_run' in input.shape;

/**
 * Builds the form of an operation for a person: a field for each member of the input, and one for the reason of a change. Its answer
 * appears in the page's #result. Nothing for a role that may not carry it out.
 */
function operationForm(
  { session, formToken }: Pick<DeskVisit, 'session' | 'formToken'>,
  operation: Operation,
  { given = {}, typed = {}, before }: FormOptions = {},
): Piece {
  if (!isAllowed(session.role, operation.role)) return '';
  const id = (member: string) => `${nameOf(operation).replaceAll(' ', '-')}-${member}`;
  const members = Object.entries(operation.input.shape as Record<string, z.ZodType>).filter(
    ([member]) => member !== 'dry_run',
  );
  const fields = members.map(([member, schema]) => {
    const value = given[member];
    if (value !== undefined) return html`<input type="hidden" name="${member}" value="${value}">`;
    return field(id(member), member, schema, typed[member]);
  });
  const action = pathOf(operation);
  const button = isCounted(operation) ? 'Count' : capital(nameOf(operation));
  if (!operation.changes)
    return html`<form class="row" action="${action}">${fields}<button>${button}</button></form>`;
  const why = html`<div><label for="${id('reason')}">Why (one line, for the audit)</label><input id="${id('reason')}" name="reason" maxlength="200" autocomplete="off" required></div>`;
  return [before && html`<p>${before}</p>`, actionForm(action, formToken, button, [fields, why])];
}

const anchorOf = (name: string): string => name.replaceAll(' ', '-');

/** The address of the form of an operation on a site, by the operation's name. */
export const formUrl = (clientToken: string, name: string): string =>
  `${siteUrl(clientToken)}/actions#${anchorOf(name)}`;

/**
 * Builds the cards of every change about something, as far as the person may make it.
 * @param about members of the input that the forms do not ask for
 * @param before what follows from a change, by its name
 */
export function cardsOf(
  visit: DeskVisit,
  about: Readonly<Record<string, string>>,
  before: Readonly<Record<string, Piece>> = {},
): Piece {
  const isAbout = ({ changes, input }: Operation) =>
    changes && Object.keys(input.shape).some((member) => member in about);
  // What only an admin may do, such as a deletion, stands last.
  const sorted = operations.filter(isAbout).sort((a, b) => roles.indexOf(a.role) - roles.indexOf(b.role));
  const cards = sorted.map((one) => {
    const form = operationForm(visit, one, { given: about, before: before[nameOf(one)] });
    return form !== '' && card(capital(nameOf(one)), sentence(one.does), form, anchorOf(nameOf(one)));
  });
  return cards.some(Boolean)
    ? [noResult, html`<div class="cards">${cards}</div>`]
    : html`<div class="notice"><p>Your role may look, but not change or send anything.</p></div>`;
}

function field(id: string, member: string, schema: z.ZodType, typed = ''): Html {
  const isRequired = !schema.safeParse(undefined).success;
  const label = capital(schema.description ?? member.replaceAll('_', ' '));
  const { type, enum: words } = toJsonSchema(schema);
  if (type === 'boolean')
    return html`<div><label><input type="checkbox" name="${member}" value="true" ${typed !== '' && html`checked`}> ${label}</label></div>`;
  const control = Array.isArray(words)
    ? html`<select id="${id}" name="${member}">${!isRequired && html`<option value="">any</option>`}${words.map((one) => html`<option value="${String(one)}" ${one === typed && html`selected`}>${String(one)}</option>`)}</select>`
    : html`<input id="${id}" name="${member}" value="${typed}" maxlength="2048" autocomplete="off" spellcheck="false" ${isRequired && html`required`}>`;
  return html`<div><label for="${id}">${label}</label>${control}</div>`;
}

/** Shows the parts of an answer, with the names of the customers and sites in them. */
export async function shownParts(db: Db, parts: readonly Part[]): Promise<Piece> {
  const names = await namesIn(db, parts);
  return parts.map((part) => shownPart(part, names));
}

function shownPart(part: Part, names: Names): Piece {
  if (typeof part === 'string') return part.split('\n').map((line) => html`<p>${line}</p>`);
  if ('lead' in part) {
    return html`<div class="notice ${part.tone}"><p class="lead"><strong>${part.lead}</strong> ${part.text}</p></div>`;
  }
  if ('facts' in part) {
    const facts = givenFacts(part.facts).map(
      ([name, value]) => html`<dt>${name}</dt><dd>${shownValue(name, value, names)}</dd>`,
    );
    return html`${part.title && html`<h2>${part.title}</h2>`}<dl class="facts">${facts}</dl>`;
  }
  const { head, rows, none } = part;
  if (rows.length === 0) return html`<p>${none}</p>`;
  const titles = head.map((name) => (name === '' ? 'Level' : capital(name.toLowerCase())));
  const shown = rows.map((row) => ({
    cells: row.map((value, i) => shownValue(titles[i] ?? '', value, names)),
  }));
  return table(titles.join(', '), titles, shown);
}

/** Shows a value: what has a page leads there. */
function shownValue(name: string, value: Value, names: Names): Piece {
  const text = String(value ?? '');
  const id = idUnder(name, text);
  if (id !== undefined && (names.has(id) || name !== 'Target'))
    return [named(id, names), text.slice(id.length)];
  const href =
    (isNotificationId(text) && `/desk/find?q=${text}`) ||
    (name === 'workflow_url' && /^https?:/.test(text) && text);
  return href ? html`<a href="${href}">${text}</a>` : text;
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
        .map((one) => html`<li><a href="${pathOf(one)}">${nameOf(one)}</a>: ${one.does}</li>`)}</ul>`,
  );
  return { title: 'All operations', body };
};

/** Mounts the page of each operation, and the answer to its form. */
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
    const { cursor: after, ...given } = filledIn(parseParameters(ctx.querystring));
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
        html`<div id="result">${await shownParts(db, visit.warnings)}${isEnd ? html`<p>There are no further entries.</p>` : await shownParts(db, shown)}</div>`,
        next && html`<p><a href="${here(ctx.path, { ...given, cursor: next })}" rel="next">More</a></p>`,
        operation.list &&
          html`<p><a href="${here(`${ctx.path}.csv`, given)}">${'limit' in input ? `The newest ${String(input.limit)}` : 'All of it'} as CSV</a></p>`,
      ];
    };
    return {
      title: capital(nameOf(operation)),
      parent: { name: 'All operations', href: '/desk/do' },
      body: [html`<p>${sentence(operation.does)}</p>`, await body()],
    };
  };

const listAsCsv =
  (operation: Operation): DeskPage =>
  async ({ ctx, session, operator }) => {
    requireRole(operation, session.role, whoIs(session));
    const input = checkedInput(operation, filledIn(parseParameters(ctx.querystring)));
    const { value } = await operation.run(operator(), input, { ...unlimited, isNewest: true });
    const columns = Object.keys((operation.answers as z.ZodObject).shape);
    ctx.attachment(`${operation.list}.csv`);
    ctx.type = 'text/csv; charset=utf-8';
    ctx.body = Readable.from(csvOf(columns, value as Record<string, unknown>[]));
    return undefined;
  };

const rowsPerPiece = 500;

/** Writes a list of any length in pieces: everybody's calls wait meanwhile. */
async function* csvOf(columns: readonly string[], list: readonly Record<string, unknown>[]) {
  // Excel recognises UTF-8 by its mark only.
  yield `\ufeff${columns.join(',')}\r\n`;
  for (let at = 0; at < list.length; at += rowsPerPiece) {
    await nextRound();
    const rows = list.slice(at, at + rowsPerPiece);
    yield rows.map((one) => `${columns.map((name) => cell(one[name])).join(',')}\r\n`).join('');
  }
}

/** RFC 4180. A program for tables takes a cell that begins with one of these, also of full width, for a formula. */
function cell(value: unknown): string {
  const text = typeof value === 'string' ? value : value == null ? '' : JSON.stringify(value);
  return `"${text.replace(/^[=+\-@＝＋－＠\t\r\n]/, "'$&").replaceAll('"', '""')}"`;
}

const operationAnswer =
  (operation: Operation): DeskPage<DeskVisit & Sent> =>
  async ({ session, operator, form, formToken, warnings }, { db }) => {
    requireRole(operation, session.role, whoIs(session));
    const { reason = '', form_token: _, ...given } = filledIn(form);
    if (!reasonText.safeParse(reason).success)
      throw badParameter('The reason is missing, or not one line of at most 200 characters');
    const { counted, ...asked } = given;
    const isOnlyCounted = isCounted(operation) && counted === undefined;
    const all = isOnlyCounted ? { ...asked, dry_run: 'true' } : asked;
    const input = checkedInput(operation, all);
    const done = await operation.run(operator(reason), input, unlimited);
    const { shown, failed, tone = failed === undefined ? 'good' : 'bad' } = done;
    const next = isOnlyCounted && countedForm(operation, formToken, { ...asked, reason }, input, done.value);
    return {
      title: capital(nameOf(operation)),
      body: html`<div id="result" class="notice ${tone}" role="status" tabindex="-1">${await shownParts(db, [...(failed ? [failed] : []), ...warnings, ...shown])}${next}</div>`,
    };
  };

/** Builds the form that does what was counted: in the same span of time, however much later it is sent. */
function countedForm(
  operation: Operation,
  formToken: string,
  typed: Record<string, string>,
  { since, until: end }: Record<string, unknown>,
  value: unknown,
): Piece {
  const { count, until } = value as { count: number; until?: string };
  if (count === 0) return '';
  const at = (ms: unknown) => new Date(ms === undefined ? Date.now() : Number(ms)).toISOString();
  const times = { since: at(since), until: until ?? at(end) };
  const fields = Object.entries({ ...typed, ...times, counted: 'true' }).map(
    ([name, given]) => html`<input type="hidden" name="${name}" value="${given}">`,
  );
  const [, verb = ''] = nameOf(operation).split(' ');
  return [
    html`<p>Of ${times.since} to ${times.until}.</p>`,
    actionForm(pathOf(operation), formToken, `${capital(verb)} ${count.toLocaleString('en')}`, fields),
  ];
}
