/**
 * People at the desk: their door, the first steps of each page, and the sign-in with the company's identity provider: OpenID Connect,
 * authorization code with PKCE. The provider is asked for its addresses and keys at each sign-in, which are few: it may change its keys
 * at any time.
 */
import type Router from '@koa/router';
import type { Configuration, IDToken } from 'openid-client';
import type { Services } from '../api/deps.js';
import { type Config, operatorRoles } from '../config.js';
import { ApiError, badParameter } from '../http/apiError.js';
import { clientAddress } from '../http/clientAddress.js';
import { accountLimits } from '../http/limits.js';
import { parseParameters } from '../http/query.js';
import { messageOf } from '../log.js';
import type { Operator } from '../operator/operation.js';
import { randomSecret } from '../redis/records/accounts.js';
import { recordChange } from '../redis/records/audit.js';
import { type Person, personSessions } from '../redis/records/operatorAccess.js';
import { keepForSecret, useKept } from '../redis/records/sessions.js';
import { publicOrigin, sessionCookies } from '../web/cookies.js';
import { createDoor, redirect, type Sent, type Visit } from '../web/door.js';
import { html } from '../web/html.js';
import type { Frame, PageAnswer, PageContext } from '../web/page.js';
import { operatorOf } from './calls.js';

const frame: Frame = { product: 'Operators’ desk', back: { name: 'Now', href: '/desk' } };

const links = [
  frame.back,
  { name: 'Find', href: '/desk/find' },
  { name: 'Customers', href: '/desk/accounts' },
  { name: 'Audit', href: '/desk/do/audit' },
  { name: 'All operations', href: '/desk/do' },
];

export const whoIs = ({ name, how, subject }: Person): string =>
  `${name} (${how}${subject === undefined ? '' : ` as ${subject}`})`;

export interface DeskVisit extends Visit<Person> {
  warnings: string[];
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
  const addressOf = ({ req }: PageContext) => clientAddress(req, config.TRUSTED_PROXIES);
  const isProviderGiven = config.OPERATOR_OIDC_ISSUER !== undefined;
  const door = createDoor<Person>({
    db,
    path: '/desk',
    frame,
    reached,
    sessions: personSessions,
    around: ({ name, role }) => ({ links, who: html`${name} <span class="badge">${role}</span>` }),
    how: html`${isProviderGiven && html`<p><a class="button" href="/desk/sign_in">Sign in with your company’s account</a></p>`}
<p>An administrator can create a one-time sign-in link, which opens this desk within 15 minutes: at the desk (All operations, desk), or with shell access by <code>npm run -s operator -- desk --name YOU --role support</code></p>`,
    record(ctx, person, _, what) {
      const opened = { what: `desk ${what}`, target: 'desk', before: null, after: { role: person.role } };
      const entry = { who: whoIs(person), address: addressOf(ctx), ...opened };
      return db.durably((own) => recordChange(own, entry)).safe;
    },
    async signedOut(_, person) {
      const there = person?.how === 'signed in' ? await signOutUrl(config) : undefined;
      const body = html`<p>You are signed out of the desk.</p>
${there && html`<p><a class="button" href="${there}">Sign out of your company’s account too</a></p>`}
<p><a href="/desk/open">Sign in again</a></p>`;
      return { title: 'Signed out', body };
    },
  });

  const { countCall } = accountLimits(db, config.ACCOUNT_RATE_PER_SECOND);
  /** The cookie that ties sign-ins to the browser in which they began: people begin several, in several tabs. */
  const cookies = sessionCookies('desk_sign_in', reached);
  const secretOf = (browser: string, state: string) => cookies.formTokenOf(`${browser} ${state}`);
  const callbackUrl = (ctx: PageContext) => new URL('/desk/callback', publicOrigin(ctx.req, reached));
  const askProvider = () => ask(config).catch(refusal(services, true));

  /** GET /desk/sign_in: leads the browser to the provider. */
  async function signIn(ctx: PageContext) {
    if (!isProviderGiven) return redirect(ctx, '/desk/open');
    const { client, provider } = await askProvider();
    const kept: SignIn = {
      pkceCodeVerifier: client.randomPKCECodeVerifier(),
      expectedState: client.randomState(),
      expectedNonce: client.randomNonce(),
    };
    const browser = cookies.secretOf(ctx) || randomSecret();
    const secret = secretOf(browser, kept.expectedState);
    await keepForSecret(db, db.global.operatorSignIn, kept, signInMs, secret);
    cookies.begin(ctx, browser, signInMs);
    const { claim } = operatorRoles(config);
    const isScope = provider.serverMetadata().scopes_supported?.includes(claim);
    const to = client.buildAuthorizationUrl(provider, {
      redirect_uri: callbackUrl(ctx).href,
      scope: `openid profile email${isScope ? ` ${claim}` : ''}`,
      state: kept.expectedState,
      nonce: kept.expectedNonce,
      code_challenge: await client.calculatePKCECodeChallenge(kept.pkceCodeVerifier),
      code_challenge_method: 'S256',
    });
    return redirect(ctx, to.href);
  }

  /** GET /desk/callback: the provider sends the browser back. */
  async function comeBack(ctx: PageContext) {
    const state = parseParameters(ctx.querystring).get('state') ?? '';
    const secret = secretOf(cookies.secretOf(ctx), state);
    const kept = await useKept<SignIn>(db, db.global.operatorSignIn, secret);
    if (kept === undefined)
      throw badParameter(
        'This sign-in was used, took longer than 10 minutes, or began in another browser or at another address of the desk: begin again',
      );
    const url = callbackUrl(ctx);
    url.search = ctx.search;
    const { client, provider } = await askProvider();
    const { claim, roles } = operatorRoles(config);
    const path = claim.replace(ofNames, '');
    const claims = await client
      .authorizationCodeGrant(provider, url, kept)
      .then(async (granted) => {
        const told = granted.claims() as IDToken;
        const isAll = claimIn(told, path) !== undefined || !provider.serverMetadata().userinfo_endpoint;
        // Many a provider tells groups only there.
        const more = isAll ? {} : await client.fetchUserInfo(provider, granted.access_token, told.sub);
        return { ...more, ...told };
      })
      .catch(refusal(services));
    const given = claimIn(claims, path);
    const values = valuesOf(given, claim);
    const role = roles.findLast(([value]) => values.includes(value))?.[1];
    const name = nameIn(claims);
    // Before the provider knows who it is, anybody could use up the sign-ins of a network.
    await countCall(ctx, 'signIns', claims.sub);
    if (role !== undefined) {
      const person: Person = { name, role, how: 'signed in', subject: claims.sub };
      const { token } = await personSessions.createLink(db, person);
      return door.enter(ctx, token, person);
    }
    const found = given === undefined ? 'was not sent' : `names none: ${JSON.stringify(given).slice(0, 200)}`;
    const says = `You are signed in with your company, as ${name}, but have no role here: your claim “${claim}” ${found}`;
    throw new ApiError('insufficient_role', says);
  }

  function withOperator<From extends Visit<Person>>(visit: From): From & DeskVisit {
    const { session, ctx } = visit;
    ctx.state.isOperator = true;
    const own = {
      role: session.role,
      who: whoIs(session),
      token: session.token,
      address: addressOf(ctx),
      warnings: [],
    };
    return { ...visit, warnings: own.warnings, operator: (reason) => operatorOf(services, own, reason) };
  }

  return {
    page: (answer: DeskPage) =>
      door.page(async (visit) => {
        const own = withOperator(visit);
        const page = await answer(own, services);
        const told = [...new Set(own.warnings)].map(
          (line) => html`<div class="notice warn"><p>${line}</p></div>`,
        );
        return page && { ...page, body: [told, page.body] };
      }),
    form: (answer: DeskPage<DeskVisit & Sent>) => door.form((visit) => answer(withOperator(visit), services)),
    mount(router: Router): void {
      door.mount(router);
      router.get('/desk/sign_in', door.outside(signIn));
      router.get('/desk/callback', door.outside(comeBack));
    },
  };
}

/** RFC 6749, sections 4.1.2.1 and 5.2; OpenID Connect Core, section 3.1.2.6. No other word of a provider is shown. */
const providerErrors =
  /^(access_denied|(account_selection|consent|interaction|login)_required|invalid_(client|grant|request|scope)|server_error|temporarily_unavailable|unauthorized_client|unsupported_(grant|response)_type)$/;

/** Says why nobody is signed in, also in the log. @param isWrong the provider answers nothing of use */
const refusal =
  ({ log }: Services, isWrong = false) =>
  (err: unknown): never => {
    const given = err as Error & Record<string, string | undefined>;
    const { code = 'unknown', error = '', cause } = given;
    const why = providerErrors.test(error) ? error : code;
    const status = cause instanceof Response ? cause.status : given.status;
    const causeSays = cause instanceof Error ? messageOf(cause) : undefined;
    log.warn({ reason: messageOf(err), cause: causeSays, code: why, status }, 'a sign-in was refused');
    const isAway = err instanceof TypeError || /^(OAUTH_TIMEOUT$|UND_ERR)/.test(code);
    const shown = [status, why].filter(Boolean).join(' ');
    if (isAway || isWrong || /CONFORM|NOT_JSON|PARSE|CHALLENGE|^server_|^temporarily_/.test(why))
      throw new ApiError(
        'temporarily_unavailable',
        `Your company’s identity provider ${isAway ? 'does not answer' : `answers wrongly (${shown})`}: the service’s log says more. Try again; a link works without it`,
      );
    const says = `The sign-in was not accepted (${shown}). Begin again; the service’s log says more`;
    throw new ApiError('invalid_token', says);
  };

const answerWithinSeconds = 5;
const clockToleranceSeconds = 300;

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
    { client_secret: secret, [client.clockTolerance]: clockToleranceSeconds },
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

type Claims = Readonly<Record<string, unknown>>;

const isObject = (one: unknown): one is Claims => typeof one === 'object' && one !== null;

/** Returns a claim, or else a member of one: `realm_access.roles`, `groups.name` of each group. Any name may have dots. */
function claimIn(claims: unknown, path: string): unknown {
  if (Array.isArray(claims)) {
    const found = claims.map((one) => claimIn(one, path)).filter((one) => one !== undefined);
    return found.length > 0 ? found.flat() : undefined;
  }
  if (!isObject(claims)) return undefined;
  if (Object.hasOwn(claims, path)) return claims[path];
  const dots = [...path.matchAll(/\./g)];
  const found = dots.map(({ index }) => claimIn(claims[path.slice(0, index)], path.slice(index + 1)));
  return found.find((one) => one !== undefined);
}

/** At the end of a path: what a claim grants are the names of its members, whose values say for what (Zitadel). */
const ofNames = /\.\*$/;

/** Returns the values of a claim that may name a role. Whatever else a provider sends may as well say no. */
function valuesOf(claim: unknown, path: string): string[] {
  if (typeof claim === 'string') return [claim];
  if (Array.isArray(claim)) return claim.filter((one) => typeof one === 'string');
  const isYes = (value: unknown) =>
    value === true || (ofNames.test(path) && isObject(value) && Object.keys(value).length > 0);
  return isObject(claim) ? Object.keys(claim).filter((name) => isYes(claim[name])) : [];
}

/** People may choose each of these but `sub`, at many a provider: in the audit `sub` follows, in parentheses. */
function nameIn({ name, preferred_username, email, sub }: Claims): string {
  const visible = (text: unknown) => `${text ?? ''}`.replaceAll(/[\p{Cc}\p{Cf}()]/gu, '').trim();
  const [first = 'nobody'] = [email, preferred_username, name, sub].map(visible).filter(Boolean);
  return first.slice(0, 64);
}

/** Returns where a person signs out of the company's account; undefined if the provider has no such address or does not answer. */
const signOutUrl = (config: Config): Promise<string | undefined> =>
  ask(config).then(
    ({ client, provider }) =>
      provider.serverMetadata().end_session_endpoint && client.buildEndSessionUrl(provider).href,
    () => undefined,
  );
