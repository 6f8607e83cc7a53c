/** The pages of a site, which a publisher or an operator reads. */
import querystring from 'node:querystring';
import type { Subject } from '../acts/subjects.js';
import type { Config } from '../config.js';
import { parseParameters } from '../http/query.js';
import { isNoticesClient } from '../ids.js';
import { originOf } from '../outgoing/target.js';
import type { Db } from '../redis/connection/db.js';
import type { Endpoint } from '../redis/records/endpoint.js';
import type { Registration } from '../redis/records/registrations.js';
import type { ConsoleSession } from '../redis/records/sessions.js';
import type { Visit } from './door.js';
import { type Html, html, type Piece } from './html.js';
import type { Link, Page } from './page.js';
import { exactly, failedNotice, healthNotice, type Reader } from './words.js';

export interface PageDeps {
  db: Db;
  config: Config;
}

/** What a page about one endpoint is made of: of a site, or of the account's notices. */
export interface Site extends Pick<Visit<unknown>, 'ctx' | 'formToken' | 'stands'> {
  client: Subject & { name?: string };
  here: string;
  reader: Reader;
  access: ConsoleSession['access'];
  health: Endpoint;
  registration?: Registration;
  countPiece?(): void;
}

export type SitePart<Of extends Site = Site> = (site: Of, deps: PageDeps) => Piece | Promise<Piece>;

/** Shows one part, and another below it. */
export const both =
  <Of extends Site>(one: SitePart<Of>, other: SitePart<Of>): SitePart<Of> =>
  async (site, deps) => [await one(site, deps), await other(site, deps)];

interface Tab<Of extends Site> {
  path: string;
  name: string;
  present: SitePart<Of>;
  /** True: it never changes. */
  isStill?: boolean;
}

/** The pages of a site, and what a first line that says what is wrong tells the reader to do. */
export interface SitePages<Of extends Site> {
  tabs: readonly Tab<Of>[];
  parent?(site: Of): Link;
  /** How to recover what has failed since then. */
  recover(site: Of, path: string, sinceMs: number): Piece;
  register(site: Of): Piece;
  resume(site: Of): Piece;
}

export const siteUrl = (clientToken: string): string => `/console/sites/${clientToken}`;

export const home = ({ client, here }: Pick<Site, 'client' | 'here'>): Link => ({
  name: client.name || client.clientToken,
  href: here,
});

/** Makes a tab of a site's pages, below a first line that says what is wrong now and, of that, what to do. */
export const tabPage =
  <Of extends Site>(
    { tabs, parent, recover, register, resume }: SitePages<Of>,
    { path, name, present, isStill = false }: Tab<Of>,
  ) =>
  async (site: Of, deps: PageDeps): Promise<Page> => {
    const { here, client, health } = site;
    const noun = isNoticesClient(client.clientToken) ? 'notice' : 'video';
    const todo = { noun, register: register(site), resume: resume(site) };
    const failed = failedNotice(health, (sinceMs) => recover(site, path, sinceMs));
    return {
      title: path === '' ? home(site).name : `${home(site).name}: ${name}`,
      parent: parent?.(site),
      isLive: !isStill,
      body: [
        !isStill && [failed, healthNotice(site, todo)],
        html`<nav aria-label="This site"><ul class="tabs">${tabs.map((tab) => html`<li><a href="${here}${tab.path}" ${tab.path === path && html`aria-current="page"`}>${tab.name}</a></li>`)}</ul></nav>`,
        await present(site, deps),
      ],
    };
  };

/** Shows the registered URL: only its scheme and host to whoever may only look, because the rest may hold a secret. */
export const shownUrl = (access: Site['access'], { url, registeredAtMs }: Registration): Html =>
  html`<code>${access === 'full' ? url : originOf(url)}</code>, in force since ${exactly(registeredAtMs)}`;

/** Returns a parameter of the query; undefined if it is absent or left empty in a form. @throws ApiError 400 */
export const given = (ctx: { querystring: string }, name: string): string | undefined =>
  parseParameters(ctx.querystring).get(name)?.trim() || undefined;

/** In a URL of the API or of these pages, in JSON, in a header, in the id of a workflow. */
const namedIds =
  /(?:platform_id|event_id|client[_-](?:id|token)|account_id)["']?\s*[=:]\s*["']?([^"'&#\s,}]+)|(?:catch-up|console\/sites|desk\/(?:clients|accounts)|\/(?:assets|events))(?:\/|%2F)([^/?#"\s]+)/gi;
const around = /^[\s\p{Pi}\p{Pf}"'`<([{,;.]+|[\s\p{Pi}\p{Pf}"'`>)\]},;.]+$/gu;

/** The time of `around` grows with the square of the length. */
const textAtMost = 2048;

/** Returns a pasted text without what is invisible in it or surrounds it. */
export const bare = (pasted: string): string =>
  pasted
    .slice(0, textAtMost)
    .replaceAll(/[\p{Cc}\p{Cf}]/gu, '')
    .replaceAll(around, '');

/**
 * Returns what a pasted text may stand for, the likeliest first: itself, because an id may have any character but those that control;
 * without what surrounds it; in either form of Unicode; the ids that it names.
 */
export function readingsOf(pasted: string): string[] {
  const text = pasted.slice(0, textAtMost).replaceAll(/\p{Cc}/gu, '');
  const inner = bare(text);
  const forms = ['NFC', 'NFD'].map((form) => inner.normalize(form));
  const named = [...text.matchAll(namedIds)].map(([, value, part]) =>
    bare(querystring.unescape(value ?? part ?? '')),
  );
  const all = new Set([text, text.trim(), inner, ...forms, ...named]);
  return [...all].filter((one) => one.trim() !== '').slice(0, 10);
}
