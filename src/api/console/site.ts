/** The pages of a site, which a publisher or an operator reads. */
import { isNoticesClient } from '../../ids.js';
import { originOf } from '../../outgoing/target.js';
import type { AccessToken } from '../../redis/records/accessTokens.js';
import type { Endpoint } from '../../redis/records/endpoint.js';
import type { Registration } from '../../redis/records/registrations.js';
import type { ConsoleSession } from '../../redis/records/sessions.js';
import type { ApiDeps, StepContext } from '../step.js';
import type { Subject } from '../steps/publisher.js';
import type { Parameters } from '../steps/query.js';
import type { DoorState } from './door.js';
import { type Html, html, type Piece } from './html.js';
import { answerPage, type Link } from './page.js';
import { exactly, healthNotice, type Reader } from './words.js';

export interface SessionState extends DoorState<ConsoleSession> {
  token: AccessToken;
}

/** The state of a page about one endpoint: of a site, or of the account's notices. */
export interface SiteState extends DoorState<Pick<ConsoleSession, 'access'>> {
  client: Subject & { name?: string };
  /** The address of the site's pages. */
  here: string;
  reader: Reader;
  health: Endpoint;
  registration?: Registration;
}

export type FormState = SessionState & Pick<SiteState, 'client' | 'here' | 'reader'> & { form: Parameters };

export type SitePart<State extends SiteState = SiteState> = (
  ctx: StepContext<State>,
  deps: Pick<ApiDeps, 'db' | 'config'>,
) => Piece | Promise<Piece>;

export interface Tab<State extends SiteState = SiteState> {
  path: string;
  name: string;
  present: SitePart<State>;
  /** True: it never changes. */
  isStill?: boolean;
}

export const siteUrl = (clientToken: string): string => `/console/sites/${clientToken}`;

/** Names a client's page. */
export const home = ({ client, here }: Pick<SiteState, 'client' | 'here'>): Link => ({
  name: client.name || client.clientToken,
  href: here,
});

/** Answers with a tab of a site's pages, below a first line that says what is wrong now and, of that, what to do. */
export async function answerTab<State extends SiteState>(
  ctx: StepContext<State>,
  deps: Pick<ApiDeps, 'db' | 'config'>,
  { path, present, isStill = false }: Tab<State>,
  {
    tabs,
    parent,
    above,
    ...todo
  }: {
    tabs: readonly Tab<State>[];
    parent?: Link;
    above?: Piece;
    register: Piece;
    resume: Piece;
  },
): Promise<void> {
  const { here, client } = ctx.state;
  const noun = isNoticesClient(client.clientToken) ? 'notice' : 'video';
  answerPage(ctx, {
    title: home(ctx.state).name,
    parent,
    isLive: !isStill,
    body: [
      !isStill && [above, healthNotice(ctx.state, { noun, ...todo })],
      html`<nav aria-label="This site"><ul class="tabs">${tabs.map((tab) => html`<li><a href="${here}${tab.path}" ${tab.path === path && html`aria-current="page"`}>${tab.name}</a></li>`)}</ul></nav>`,
      await present(ctx, deps),
    ],
  });
}

/** Shows the registered URL: only its scheme and host to a session that may look, because the rest may hold a secret. */
export const shownUrl = ({ access }: SiteState['session'], { url, registeredAtMs }: Registration): Html =>
  html`<code>${access === 'full' ? url : originOf(url)}</code>, in force since ${exactly(registeredAtMs)}`;
