/**
 * People at the desk: their door, the first steps of each page, and the sign-in with the company's identity provider: OpenID Connect,
 * authorization code with PKCE. The provider is asked for its addresses and keys at each sign-in, which are few: it may change its keys
 * at any time.
 */
import type Router from '@koa/router';
import type { Configuration, IDToken } from 'openid-client';
import { ApiError, badParameter } from '../api/apiError.js';
import {
  createDoor,
  publicOrigin,
  redirect,
  type Sent,
  sessionCookies,
  type Visit,
} from '../api/console/door.js';
import { html } from '../api/console/html.js';
import type { Frame, PageAnswer, PageContext } from '../api/console/page.js';
import type { Services } from '../api/step.js';
import { type Config, operatorRoles } from '../config.js';
import { messageOf } from '../log.js';
import type { Operator } from '../operator/operation.js';
import { recordChange } from '../redis/records/audit.js';
import { type Person, personSessions } from '../redis/records/operatorAccess.js';
import { keepForSecret, useKept } from '../redis/records/sessions.js';
import { operatorOf } from './calls.js';

const frame: Frame = { product: 'Operators’ desk', back: { name: 'Now', href: '/desk' } };

const links = [
  frame.back,
  { name: 'Find', href: '/desk/find' },
  { name: 'Audit', href: '/desk/do/audit' },
  { name: 'All operations', href: '/desk/do' },
];

export const whoIs = ({ name, how, subject }: Person): string =>
  `${name} (${how}${subject === undefined ? '' : ` as ${subject}`})`;

/** A request of a person. */
export interface DeskVisit extends Visit<Person> {
  /** Warnings of what was done for this answer. */
  warnings: string[];
  /** Returns what operations work with, for this person. */
  operator(reason?: string): Operator;
}

export type DeskPage<From = DeskVisit> = (visit: From, services: Services) => PageAnswer;

const signInMs = 10 * 60_000;

/** What a sign-in at the identity provider is checked against when the browser comes back. */
type SignIn = Record<'pkceCodeVerifier' | 'expectedState' | 'expectedNonce', string>;

export type DeskDoor = ReturnType<typeof createDeskDoor>;

/** Makes the door of the desk: its pages, its forms, and how people come in. */
export function createDeskDoor(services: Services) {
  const { config, db } = services;
  const reached = { PUBLIC_URL: config.OPERATOR_URL, TRUSTED_PROXIES: config.TRUSTED_PROXIES };
  const isProviderGiven = config.OPERATOR_OIDC_ISSUER !== undefined;
  const door = createDoor<Person>({
    db,
    path: '/desk',
    frame,
    reached,
    sessions: personSessions,
    around: ({ name, role }) => ({ links, who: html`${name} <span class="badge">${role}</span>` }),
    how: html`${isProviderGiven && html`<p><a class="button" href="/desk/sign_in">Sign in with your company’s account</a></p>`}
<p>Somebody with a shell on the service’s machines can make a link that opens this desk once, within 15 minutes: <code>npm run -s operator -- desk --name YOU --role support</code></p>`,
    record(_, person) {
      const opened = { what: 'desk opened', target: 'desk', before: null, after: { role: person.role } };
      return db.durably((own) => recordChange(own, { who: whoIs(person), ...opened })).safe;
    },
    async signedOut(_, person) {
      const there = person?.how === 'signed in' ? await signOutUrl(config) : undefined;
      const body = html`<p>You are signed out of the desk.</p>
${there && html`<p><a class="button" href="${there}">Sign out of your company’s account too</a></p>`}
<p><a href="/desk/open">Come in again</a></p>`;
      return { title: 'Signed out', body };
    },
  });

  /** The cookie that ties a sign-in to the browser in which it began. */
  const cookies = sessionCookies('desk_sign_in', reached);
  const callbackUrl = (ctx: PageContext) => new URL('/desk/callback', publicOrigin(ctx.req, reached));
  const askProvider = () => ask(config).catch(refusal(services, 'answers wrongly'));

  /** GET /desk/sign_in: leads the browser to the provider. */
  async function signIn(ctx: PageContext) {
    if (!isProviderGiven) return redirect(ctx, '/desk/open');
    const { client, provider } = await askProvider();
    const kept: SignIn = {
      pkceCodeVerifier: client.randomPKCECodeVerifier(),
      expectedState: client.randomState(),
      expectedNonce: client.randomNonce(),
    };
    const secret = await keepForSecret(db, db.global.operatorSignIn, kept, signInMs);
    cookies.begin(ctx, secret, signInMs);
    const to = client.buildAuthorizationUrl(provider, {
      redirect_uri: callbackUrl(ctx).href,
      scope: 'openid profile email',
      state: kept.expectedState,
      nonce: kept.expectedNonce,
      code_challenge: await client.calculatePKCECodeChallenge(kept.pkceCodeVerifier),
      code_challenge_method: 'S256',
    });
    return redirect(ctx, to.href);
  }

  /** GET /desk/callback: the provider sends the browser back. */
  async function comeBack(ctx: PageContext) {
    const kept = await useKept<SignIn>(db, db.global.operatorSignIn, cookies.secretOf(ctx));
    cookies.end(ctx);
    if (kept === undefined)
      throw badParameter(
        'This sign-in took longer than 10 minutes, or began in another browser: begin again',
      );
    const url = callbackUrl(ctx);
    url.search = ctx.search;
    const { client, provider } = await askProvider();
    const claims = await client
      .authorizationCodeGrant(provider, url, kept)
      .then((granted) => granted.claims())
      .catch(refusal(services));
    const person = claims && personOf(config, claims);
    if (person !== undefined) {
      const { token } = await personSessions.createLink(db, person);
      return door.enter(ctx, token, person);
    }
    const who = claims ? nameIn(claims) : 'nobody';
    const { claim } = operatorRoles(config);
    const found = claims?.[claim] === undefined ? 'is not in the ID token' : 'names none';
    const says = `You are signed in with your company, as ${who}, but have no role here: your claim “${claim}” ${found}`;
    throw new ApiError('insufficient_role', says);
  }

  function withOperator<From extends Visit<Person>>(visit: From): From & DeskVisit {
    const own = { role: visit.session.role, who: whoIs(visit.session), warnings: [] };
    return { ...visit, warnings: own.warnings, operator: (reason) => operatorOf(services, own, reason) };
  }

  return {
    page: (answer: DeskPage) => door.page((visit) => answer(withOperator(visit), services)),
    form: (answer: DeskPage<DeskVisit & Sent>) => door.form((visit) => answer(withOperator(visit), services)),
    mount(router: Router): void {
      door.mount(router);
      router.get('/desk/sign_in', door.outside(signIn));
      router.get('/desk/callback', door.outside(comeBack));
    },
  };
}

/** Says why nobody is signed in. The log has the provider's error. @param fault of a provider that answers nothing of use */
const refusal =
  ({ log }: Services, fault?: string) =>
  (err: unknown): never => {
    const { code = '', cause } = err as { code?: string; cause?: unknown };
    const reasons = { reason: messageOf(err), cause: cause instanceof Error ? messageOf(cause) : undefined };
    log.warn({ ...reasons, code }, 'a sign-in was refused');
    const isAway = code === 'OAUTH_TIMEOUT' || err instanceof TypeError || code.startsWith('UND_ERR');
    if (isAway || fault)
      throw new ApiError(
        'temporarily_unavailable',
        `Your company’s identity provider ${isAway ? 'does not answer' : fault}: the service’s log says why. Try again; a link works without it`,
      );
    throw new ApiError(
      'invalid_token',
      'The sign-in was not accepted. Begin again; the service’s log says why',
    );
  };

const answerWithinSeconds = 5;

/** Asks the provider for its addresses and keys. @throws if it does not answer */
async function ask(config: Config) {
  // Loaded only for a sign-in.
  const client = await import('openid-client');
  const issuer = new URL(config.OPERATOR_OIDC_ISSUER ?? '');
  const { OPERATOR_OIDC_CLIENT_ID: id = '', OPERATOR_OIDC_CLIENT_SECRET: secret } = config;
  // A provider on this machine may use http (config.ts).
  const insecure = issuer.protocol === 'http:' ? [client.allowInsecureRequests] : [];
  const provider: Configuration = await client.discovery(
    issuer,
    id,
    secret,
    (server, ...request) => {
      const methods = server.token_endpoint_auth_methods_supported ?? [];
      const isBasic = methods.includes('client_secret_basic') && !methods.includes('client_secret_post');
      const { None, ClientSecretBasic, ClientSecretPost } = client;
      const secretIn = isBasic ? ClientSecretBasic : ClientSecretPost;
      return (secret === undefined ? None() : secretIn(secret))(server, ...request);
    },
    { timeout: answerWithinSeconds, execute: [...insecure, client.enableNonRepudiationChecks] },
  );
  return { client, provider };
}

/** Returns the person with the highest role that the claim names; undefined if it names none. */
function personOf(config: Config, claims: IDToken): Person | undefined {
  const { claim, roles } = operatorRoles(config);
  const values = [claims[claim]].flat().map(String);
  const role = roles.findLast(([value]) => values.includes(value))?.[1];
  return role && { name: nameIn(claims), role, how: 'signed in', subject: claims.sub };
}

/** People may choose each of these but `sub`, at many a provider: in the audit `sub` follows, in parentheses. */
function nameIn({ name, preferred_username, email, sub }: IDToken): string {
  const visible = (text: unknown) =>
    String(text ?? '')
      .replaceAll(/[\p{Cc}\p{Cf}()]/gu, '')
      .trim();
  const [first = 'nobody'] = [email, preferred_username, name, sub].map(visible).filter(Boolean);
  return first.slice(0, 64);
}

/** Returns where a person signs out of the company's account; undefined if the provider has no such address or does not answer. */
async function signOutUrl(config: Config): Promise<string | undefined> {
  try {
    const { client, provider } = await ask(config);
    return provider.serverMetadata().end_session_endpoint && client.buildEndSessionUrl(provider).href;
  } catch {
    return undefined;
  }
}
