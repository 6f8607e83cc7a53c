import type { Context } from 'koa';
import type { SessionState } from './access/session.js';
import { assetUrl } from './assets.js';
import { type Html, html, type Piece } from './html.js';

export interface Page {
  title: string;
  /** Absent: no session. */
  session?: Pick<SessionState, 'session' | 'formToken'>;
  /** The links from the list of sites to this page. */
  trail?: readonly { name: string; href: string }[];
  scripts?: readonly string[];
  styles?: readonly string[];
  body: Piece;
}

export function answerPage(ctx: Pick<Context, 'type' | 'body'>, page: Page): void {
  ctx.type = 'html';
  ctx.body = render(page).text;
}

const htmxConfig = JSON.stringify({
  includeIndicatorCSS: false,
  history: false,
  mode: 'same-origin',
  // Details that the reader has opened stay open when their part of the page changes.
  morphIgnore: ['data-htmx-powered', 'open'],
});

function render({ title, session, trail = [], scripts = [], styles = [], body }: Page): Html {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="htmx-config" content="${htmxConfig}">
<title>${title} · Notifications console</title>
<link rel="icon" href="${assetUrl('icon.svg')}">
${[...styles, 'console.css'].map((name) => html`<link rel="stylesheet" href="${assetUrl(name)}">`)}
${['htmx.js', ...scripts, 'console.js'].map((name) => html`<script defer src="${assetUrl(name)}"></script>`)}
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<p class="product">Notifications console</p>
${session && signedIn(session)}
</header>
<main id="main">
${trail.length > 0 && html`<nav aria-label="Where you are"><ol class="trail">${trail.map((step) => html`<li><a href="${step.href}">${step.name}</a></li>`)}</ol></nav>`}
<h1>${title}</h1>
${body}
</main>
<footer><p>Times are UTC.</p></footer>
</body>
</html>
`;
}

function signedIn({ session, formToken }: Pick<SessionState, 'session' | 'formToken'>): Html {
  return html`<p class="account">${session.accountName}${session.access === 'read' && html` <span class="badge">read only</span>`}</p>
<form method="post" action="/console/sign_out">${formTokenField(formToken)}<button class="quiet">Sign out</button></form>`;
}

/** The part of a page that htmx fetches again while the page is visible (`assets/console.js`). After an error the present part stays. */
export const live = (url: string, content: Piece): Html =>
  html`<div id="live" hx-get="${url}" hx-trigger="every 5s, visibilitychange from:document" hx-select="#live" hx-swap="outerMorph" hx-status:4xx="swap:none" hx-status:5xx="swap:none">${content}</div>`;

export const formTokenField = (formToken: string): Html =>
  html`<input type="hidden" name="form_token" value="${formToken}">`;
