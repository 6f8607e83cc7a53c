/** The frame of every page: headers, the files that it loads, the session, tables, and errors as pages. */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname, join } from 'node:path';
import type { Context, Middleware } from 'koa';
import { isNoticesClient } from '../../ids.js';
import type { ConsoleSession } from '../../redis/records/consoleSessions.js';
import { ApiError, toApiError } from '../apiError.js';
import { type ApiState, composeSteps, type Step } from '../step.js';
import type { Form } from '../steps/form.js';
import type { PublisherState } from '../steps/publisher.js';
import { type Html, html, type Piece } from './html.js';

export interface SessionState extends PublisherState {
  client: PublisherState['client'] & { name?: string };
  session: ConsoleSession;
  /** The token that every form of the session contains. */
  formToken: string;
}

export interface FormState extends SessionState {
  form: Form;
}

interface Page {
  title: string;
  /** The page that this one belongs to. */
  parent?: { name: string; href: string };
  /** Fetched again while it is visible (`assets/console.js`); forms stay as they are, and everything after an error. */
  isLive?: boolean;
  body: Piece;
}

type PageContext = Pick<Context, 'type' | 'body' | 'path' | 'url'> & {
  state: ApiState & Partial<SessionState>;
};

export function answerPage(ctx: PageContext, { title, parent, isLive = false, body }: Page): void {
  const { session, formToken } = ctx.state;
  ctx.type = 'html';
  ctx.body = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="htmx-config" content="${htmxConfig}">
<title>${title} · Notifications console</title>
<link rel="icon" href="${assetUrl('icon.svg')}">
<link rel="stylesheet" href="${assetUrl('console.css')}">
<script defer src="${assetUrl('htmx.js')}"></script>
<script defer src="${assetUrl('console.js')}"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<p class="product">Notifications console</p>
${session && formToken && signedIn(ctx.path, session, formToken)}
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
  morphSkip: 'form, #result',
  // Details that the reader has opened stay open when their part of the page changes.
  morphIgnore: ['data-htmx-powered', 'open'],
});

const refreshed = (url: string): Html =>
  html`hx-get="${url}" hx-trigger="every 5s, refresh, visibilitychange from:document" hx-select="#main" hx-swap="outerMorph" hx-status:4xx="swap:none" hx-status:5xx="swap:none"`;

function signedIn(path: string, { accountName, access }: ConsoleSession, formToken: string): Html {
  const link = (href: string, name: string) =>
    html`<a href="${href}" ${path === href && html`aria-current="page"`}>${name}</a>`;
  return html`<nav aria-label="Account">${link('/console', 'Sites')} ${link('/console/notices', 'Notices')}</nav>
<p class="account">${accountName}${access === 'read' && html` <span class="badge">read only</span>`}</p>
<form method="post" action="/console/sign_out">${formTokenField(formToken)}<button class="quiet">Sign out</button></form>`;
}

export const formTokenField = (formToken: string): Html =>
  html`<input type="hidden" name="form_token" value="${formToken}">`;

/** Where the answer of a form appears. */
export const noResult = html`<div id="result"></div>`;

/** A form that answers in the page's #result; without script it answers with a page. */
export const actionForm = (action: string, formToken: string, label: string, fields?: Piece): Html =>
  html`<form class="row" method="post" action="${action}" hx-post="${action}" hx-target="#result" hx-select="#result" hx-swap="outerHTML">
${formTokenField(formToken)}${fields}<button>${label}</button></form>`;

/**
 * A table whose first cells name the rows. On a phone each row is a block in which every cell has the name of its column;
 * the roles say that it is still a table.
 */
export function table(
  label: string,
  columns: readonly string[],
  rows: readonly { id?: string; cells: readonly Piece[] }[],
): Html {
  const cell = (content: Piece, i: number) =>
    i === 0
      ? html`<th role="rowheader" scope="row">${content}</th>`
      : html`<td role="cell" data-label="${columns[i]}">${content}</td>`;
  return html`<table role="table" aria-label="${label}">
<thead role="rowgroup"><tr role="row">${columns.map((name) => html`<th role="columnheader" scope="col">${name}</th>`)}</tr></thead>
<tbody role="rowgroup">${rows.map(({ id, cells }) => html`<tr ${id && html`id="${id}"`} role="row">${cells.map(cell)}</tr>\n`)}</tbody></table>`;
}

/** Composes an answer of the console: its headers, its errors as pages. */
export const composePage = <State>(...steps: Step<State>[]): Middleware[] =>
  composeSteps<State>(setHeaders, answerErrors, ...steps);

/**
 * A page loads files of this service only, has no script in its source, and no other site may frame it. `same-origin`,
 * because with `no-referrer` a browser hides a form's Origin.
 */
const setHeaders: Step = (ctx, next) => {
  ctx.set({
    'Content-Security-Policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
      "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    'X-Frame-Options': 'DENY',
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'same-origin',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Cache-Control': 'no-store',
  });
  return next();
};

/** The API itself answers and logs a bug of the service. */
const answerErrors: Step = async (ctx, next) => {
  try {
    await next();
  } catch (thrown) {
    const err = toApiError(thrown);
    if (err === undefined) throw thrown;
    ctx.status = err.status;
    ctx.set(err.headers);
    answerPage(ctx, {
      title: err.status === 404 ? 'Not found' : 'That did not work',
      body: html`<div id="result" class="notice bad" role="alert" tabindex="-1"><p>${err.message}.</p>
<p class="faint">Request ${ctx.state.requestId}, code ${err.code}</p></div>
<p><a href="${homeOf((ctx.state as Partial<SessionState>).client).href}">Back</a></p>`,
    });
  }
};

/** The page of a client: a site, or the account's notices. */
export function homeOf(client: SessionState['client'] | undefined): { name: string; href: string } {
  if (client === undefined) return { name: 'Sites', href: '/console' };
  const { clientToken, name } = client;
  if (isNoticesClient(clientToken)) return { name: 'Notices', href: '/console/notices' };
  return { name: name || clientToken, href: `/console/sites/${clientToken}` };
}

const htmx = join(dirname(createRequire(import.meta.url).resolve('htmx.org')), 'htmx.min.js');

/** The files that pages load, read once. The address of each contains the hash of its content. */
const assets = new Map(
  ['console.css', 'console.js', 'icon.svg', 'htmx.js'].map((name) => {
    const content = readFileSync(name === 'htmx.js' ? htmx : join(import.meta.dirname, 'assets', name));
    return [name, { content, version: hash('sha256', content, 'hex').slice(0, 12) }];
  }),
);

export const assetUrl = (name: string): string => `/console/assets/${name}?v=${assets.get(name)?.version}`;

/** GET /console/assets/{name}: browsers keep it for a year, because changed content has a new address. */
export const assetEndpoint: Middleware[] = composePage(async (ctx) => {
  const { name = '' } = ctx.params;
  const found = assets.get(name);
  if (found === undefined) throw new ApiError('not_found', 'There is nothing at this address');
  ctx.set('Cache-Control', 'public, max-age=31536000, immutable');
  ctx.type = extname(name);
  ctx.body = found.content;
});
