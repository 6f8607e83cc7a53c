/** The parts of answers as pages show them, with the names of customers and sites wherever their ids stand. */
import { isClientToken, isNoticesClient, isNotificationId } from '../ids.js';
import { capital, givenFacts, type Part, type Value } from '../operator/terminal.js';
import { mapInPages } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { ignore, unlessBroken } from '../redis/connection/unavailable.js';
import { getAccount } from '../redis/records/accounts.js';
import { getClient } from '../redis/records/clients.js';
import { type Html, html, type Piece } from '../web/html.js';
import { table } from '../web/page.js';

/** Names by the id of an account or the token of a client. */
export type Names = ReadonlyMap<string, string>;

export const isAccountId = (text: string): boolean => /^acc_[\w-]+$/.test(text);

export const siteUrl = (clientToken: string): string => `/desk/clients/${clientToken}`;

export const hrefOf = (id: string): string => (isAccountId(id) ? `/desk/accounts/${id}` : siteUrl(id));

/** Reads the names of these ids; what has none, such as what was deleted, is left out. */
export async function namesOf(db: Db, ids: Iterable<string | null | undefined>): Promise<Names> {
  const names = new Map<string, string>();
  await mapInPages([...new Set(ids)], 100, async (id) => {
    if (!id) return;
    const reading = isAccountId(id) ? getAccount(db, id) : getClient(db, id);
    const found = await unlessBroken<{ name: string } | undefined>(reading, ignore);
    if (found?.name) names.set(id, found.name);
  });
  return names;
}

/** Titles of columns and facts whose values are clients; a `target` may be one. */
const ofClients = ['client', 'client token', 'target', 'worst'];

/** Returns the id of the account or client that a value under this title is, or begins with. */
export function idUnder(title: string, value: unknown): string | undefined {
  const [id = ''] = String(value ?? '').split(' from ');
  if (isAccountId(id)) return id;
  const isId = isClientToken(id) || isNoticesClient(id);
  return isId && ofClients.includes(title.toLowerCase().replaceAll('_', ' ')) ? id : undefined;
}

/** Reads the names of every account and client that these parts show. */
export function namesIn(db: Db, parts: readonly Part[]): Promise<Names> {
  const ids = parts.flatMap((part) => {
    if (typeof part === 'string' || 'lead' in part) return [];
    if ('facts' in part) return Object.entries(part.facts).map(([name, value]) => idUnder(name, value));
    return part.rows.flatMap((row) => row.map((value, i) => idUnder(part.head[i] ?? '', value)));
  });
  return namesOf(db, ids);
}

/** Shows a customer or a site by its name, with its id behind, as a link to its page. */
export function named(id: string, names: Names): Html {
  const name = names.get(id);
  if (name === undefined) return html`<a href="${hrefOf(id)}">${id}</a>`;
  return html`<a href="${hrefOf(id)}">${name}</a> <code class="faint">${id}</code>`;
}

/** Shows the parts of an answer, with the names of the customers and sites in them. */
export async function shownParts(db: Db, parts: readonly Part[]): Promise<Piece> {
  const names = await namesIn(db, parts);
  return parts.map((part) => shownPart(part, names));
}

function shownPart(part: Part, names: Names): Piece {
  if (typeof part === 'string') return part.split('\n').map((line) => html`<p>${line}</p>`);
  if ('lead' in part)
    return html`<div class="notice ${part.tone}"><p class="lead"><strong>${part.lead}</strong> ${part.text}</p></div>`;
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
  if (name === 'url' && /\/(console|desk)\/open#/.test(text))
    return html`<a href="${text}">Open</a> <code id="one-time-link">${text}</code> <button type="button" class="quiet" data-copies="one-time-link">Copy</button>`;
  const id = idUnder(name, text);
  if (id !== undefined && (names.has(id) || name !== 'Target'))
    return [named(id, names), text.slice(id.length)];
  const href =
    (isNotificationId(text) && `/desk/find?q=${text}`) ||
    (name === 'workflow_url' && /^https?:/.test(text) && text);
  return href ? html`<a href="${href}">${text}</a>` : text;
}
