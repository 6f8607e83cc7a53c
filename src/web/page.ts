/** The frame of every page: headers, the files that it loads, the session, tables, and errors as pages. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Middleware } from 'koa';
import type { ApiError } from '../http/apiError.js';
import type { ApiContext } from '../http/context.js';
import { packedFile } from './files.js';
import { type Html, html, type Piece, pageHeaders } from './html.js';

export interface Link {
  name: string;
  href: string;
}

/** What stands around every page of a door: of the console, or of the operators' pages. */
export interface Frame {
  product: string;
  /** Where an error leads back to: the first page, until what is asked for is known. */
  back: Link;
  /** The form that was sent: an error names its field as the page does, and shows the form again, filled in. */
  sent?: { labels: Readonly<Record<string, string>>; form(wrong?: string): Piece };
  session?: { links: readonly Link[]; who: Piece; signOut: string; formToken: string };
}

export type PageContext = ApiContext & { state: { frame: Frame } };

export interface Page {
  title: string;
  parent?: Link;
  /** True: the page is fetched again while it is visible (`assets/console.js`). Forms stay as they are; after an error all does. */
  isLive?: boolean;
  body: Piece;
}

/** What a browser gets: a page, or nothing more where it was answered otherwise, such as with a redirect. */
export type PageAnswer = Page | undefined | Promise<Page | undefined>;

/** Composes an answer of a door for browsers: sets its headers, and shows errors as pages. */
export const composePage =
  (frame: Frame, answer: (ctx: PageContext) => PageAnswer): Middleware =>
  async (given) => {
    const ctx = given as PageContext;
    ctx.state.frame = { ...frame };
    ctx.state.showError = (err) => showPage(ctx, errorPage(ctx, err));
    ctx.set({ ...pageHeaders, 'Cache-Control': 'no-store' });
    const page = await answer(ctx);
    if (page !== undefined) showPage(ctx, page);
  };

function showPage(ctx: PageContext, { title, parent, isLive = false, body }: Page): void {
  const { product, session } = ctx.state.frame;
  ctx.type = 'html';
  ctx.body = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="htmx-config" content="${htmxConfig}">
<title>${title} · ${product}</title>
<link rel="icon" href="/console/assets/icon.svg">
<link rel="stylesheet" href="/console/assets/console.css">
<script defer src="/console/assets/htmx.js"></script>
<script defer src="/console/assets/console.js"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<p class="product">${product}</p>
${session && signedIn(ctx.path, session)}
</header>
<main id="main" tabindex="-1" ${isLive && refreshed(ctx.url)}>
${parent && html`<p class="parent"><a href="${parent.href}">‹ ${parent.name}</a></p>`}
<h1>${title}</h1>
${body}
</main>
<footer><p>Times are UTC.</p></footer>
</body>
</html>
`.text;
}

const htmxConfig = JSON.stringify({
  includeIndicatorCSS: false,
  history: false,
  mode: 'same-origin',
  // A form stays what its reader has read and written: one that is about something else by now is refused.
  morphSkip: 'form, #result',
  // Details that the reader has opened stay open when their part of the page changes.
  morphIgnore: ['data-htmx-powered', 'open'],
});

const refreshed = (url: string): Html =>
  html`hx-get="${url}" hx-trigger="every 5s, refresh, visibilitychange from:document" hx-select="#main" hx-swap="outerMorph" hx-status:4xx="swap:none" hx-status:5xx="swap:none"`;

function signedIn(path: string, { links, who, signOut, formToken }: NonNullable<Frame['session']>): Html {
  const shown = links.map(
    ({ href, name }) => html`<a href="${href}" ${path === href && html`aria-current="page"`}>${name}</a> `,
  );
  return html`<nav aria-label="Account">${shown}</nav>
<p class="account">${who}</p>
<form method="post" action="${signOut}">${formTokenField(formToken)}<button class="quiet">Sign out</button></form>`;
}

export const hidden = (name: string, value: string): Html =>
  html`<input type="hidden" name="${name}" value="${value}">`;
export const formTokenField = (formToken: string): Html => hidden('form_token', formToken);

/** The place where the answer of a form appears. */
export const noResult = html`<div id="result"></div>`;

/** Builds a form whose answer appears in the page's #result; without script the answer is a page. */
export const actionForm = (
  action: string,
  formToken: string,
  label: string,
  fields?: Piece,
  isFinal = false,
): Html =>
  html`<form class="row" method="post" action="${action}" hx-post="${action}" hx-target="#result" hx-select="#result" hx-swap="outerHTML" hx-sync="drop">
${formTokenField(formToken)}${fields}<button ${isFinal && html`class="danger"`}>${label}</button></form>`;

export const card = (title: string, text: Piece, forms: Piece, id?: string): Html =>
  html`<section class="card" ${id && html`id="${id}"`}><h2>${title}</h2><p>${text}</p>${forms}</section>`;

/**
 * Builds a table whose first cells name the rows. On a phone each row is a block in which every cell has the name of its column;
 * the roles say that the blocks are still a table.
 */
export function table(
  label: string,
  columns: readonly string[],
  rows: readonly { id?: string; cells: readonly Piece[] }[],
): Html {
  const cell = (content: Piece, i: number) => {
    const isLong = /[^\s-]{13}/.test(html`${content}`.text.replaceAll(/<[^>]*>/g, ' '));
    const long = isLong && html` class="long"`;
    return i === 0
      ? html`<th role="rowheader" scope="row"${long}>${content}</th>`
      : html`<td role="cell" data-label="${columns[i]}"${long}>${content}</td>`;
  };
  return html`<table role="table" aria-label="${label}">
<thead role="rowgroup"><tr role="row">${columns.map((name) => html`<th role="columnheader" scope="col">${name}</th>`)}</tr></thead>
<tbody role="rowgroup">${rows.map(({ id, cells }) => html`<tr ${id && html`id="${id}"`} role="row">${cells.map(cell)}</tr>\n`)}</tbody></table>`;
}

function errorPage({ state }: PageContext, { status, message, code }: ApiError): Page {
  const { back, sent } = state.frame;
  const [start = '', member = ''] = /^(\w+): /.exec(message) ?? [];
  const [label] = new Map(Object.entries(sent?.labels ?? {})).get(member)?.split(/[,(]/) ?? [];
  const says = label ? `${label.trim()}: ${message.slice(start.length)}` : message;
  return {
    title: status === 404 ? 'Not found' : 'That did not work',
    body: html`<div id="result" class="notice bad" role="alert" tabindex="-1" ${label && html`data-field="${member}"`}><p>${says}.</p>
<p class="faint">Request ${state.requestId}, code ${code}</p></div>
${sent?.form(label && member)}
<p><a href="${back.href}">Back</a></p>`,
  };
}

const file = (type: string, path: string) => packedFile(type, () => readFile(path));
const folder = join(import.meta.dirname, 'assets');
const htmx = dirname(createRequire(import.meta.url).resolve('htmx.org'));

/** GET /console/assets/...: every file that a page loads. */
export const consoleFiles = {
  '/console/assets/console.css': file('css', join(folder, 'console.css')),
  '/console/assets/console.js': file('js', join(folder, 'console.js')),
  '/console/assets/icon.svg': file('svg', join(folder, 'icon.svg')),
  '/console/assets/htmx.js': file('js', join(htmx, 'htmx.min.js')),
};
