import type { Context } from 'koa';
import type { SessionState } from './access/session.js';
import { type Html, html, type Piece } from './html.js';
import { answerPage, type Page } from './layout.js';

const tabs = [
  ['', 'Overview'],
  ['/notifications', 'Notifications'],
  ['/asset', 'Why did I get nothing?'],
  ['/actions', 'Actions'],
  ['/verify', 'Verify signatures'],
] as const;

type Tab = (typeof tabs)[number][0];

export const siteUrl = (clientToken: string): string => `/console/sites/${clientToken}`;

/** Answers a page of one site: the links back, the site's name, its tabs. */
export function answerSitePage(
  ctx: Pick<Context, 'type' | 'body'> & { state: SessionState },
  page: Pick<Page, 'scripts' | 'styles'> & { tab?: Tab; title?: string; body: Piece },
): void {
  const { client } = ctx.state;
  const { clientToken, name } = client;
  const { tab, title, body, ...rest } = page;
  const site = name || clientToken;
  answerPage(ctx, {
    ...rest,
    title: title ?? site,
    session: ctx.state,
    trail: [
      { name: 'Sites', href: '/console' },
      ...(title === undefined ? [] : [{ name: site, href: siteUrl(clientToken) }]),
    ],
    body: [
      title === undefined && html`<p class="faint">Client token <code>${clientToken}</code></p>`,
      nav(clientToken, tab),
      body,
    ],
  });
}

const nav = (clientToken: string, current: Tab | undefined): Html =>
  html`<nav aria-label="This site"><ul class="tabs">${tabs.map(([path, name]) => html`<li><a href="${siteUrl(clientToken)}${path}" ${path === current && html`aria-current="page"`}>${name}</a></li>`)}</ul></nav>`;
