/**
 * Signs people in with the company's identity provider: OpenID Connect, authorization code with PKCE. It is asked for its addresses and
 * keys at each sign-in, which are few: it may change its keys at any time.
 */
import type { Middleware } from 'koa';
import type { Configuration, IDToken } from 'openid-client';
import { ApiError, badParameter } from '../api/apiError.js';
import { type createDoor, publicOrigin, redirect, sessionCookies } from '../api/console/door.js';
import type { Services, StepContext } from '../api/step.js';
import { type Config, operatorRoles } from '../config.js';
import { messageOf } from '../log.js';
import { type Person, personSessions } from '../redis/records/operatorAccess.js';
import { keepForSecret, useKept } from '../redis/records/sessions.js';

type DeskDoor = ReturnType<typeof createDoor<Person>>;

export const isProviderGiven = (config: Config): boolean => config.OPERATOR_OIDC_ISSUER !== undefined;

/** Where browsers reach the desk. */
export const reachedOf = ({ config }: Pick<Services, 'config'>) => ({
  PUBLIC_URL: config.OPERATOR_URL,
  TRUSTED_PROXIES: config.TRUSTED_PROXIES,
});

const signInMs = 10 * 60_000;

/** What a sign-in at the identity provider is checked against when the browser comes back. */
type SignIn = Record<'verifier' | 'state' | 'nonce', string>;

const callbackUrl = (ctx: StepContext<unknown>, services: Services): URL =>
  new URL('/desk/callback', publicOrigin(ctx.req, reachedOf(services)));

/** The cookie that ties a sign-in to the browser in which it began. */
const signInCookies = (services: Services) => sessionCookies('desk_sign_in', reachedOf(services));

/** GET /desk/sign_in: leads the browser to the provider. */
export function signInEndpoint(services: Services, door: DeskDoor): Middleware[] {
  return door.outside(async (ctx) => {
    if (!isProviderGiven(services.config)) return redirect(ctx, '/desk/open');
    const { client, provider } = await ask(services.config).catch(refusal(services));
    const kept: SignIn = {
      verifier: client.randomPKCECodeVerifier(),
      state: client.randomState(),
      nonce: client.randomNonce(),
    };
    const secret = await keepForSecret(services.db, services.db.global.operatorSignIn, kept, signInMs);
    signInCookies(services).begin(ctx, secret, signInMs);
    const to = client.buildAuthorizationUrl(provider, {
      redirect_uri: callbackUrl(ctx, services).href,
      scope: 'openid profile email',
      state: kept.state,
      nonce: kept.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(kept.verifier),
      code_challenge_method: 'S256',
    });
    redirect(ctx, to.href);
  });
}

/** GET /desk/callback: the provider sends the browser back. */
export function callbackEndpoint(services: Services, door: DeskDoor): Middleware[] {
  return door.outside(async (ctx) => {
    const cookies = signInCookies(services);
    const { db } = services;
    const kept = await useKept<SignIn>(db, db.global.operatorSignIn, cookies.secretOf(ctx));
    cookies.end(ctx);
    if (kept === undefined)
      throw badParameter(
        'This sign-in took longer than 10 minutes, or began in another browser: begin again',
      );
    const url = callbackUrl(ctx, services);
    url.search = ctx.search;
    const claims = await ask(services.config)
      .then(({ client, provider }) =>
        client.authorizationCodeGrant(provider, url, {
          pkceCodeVerifier: kept.verifier,
          expectedState: kept.state,
          expectedNonce: kept.nonce,
        }),
      )
      .then((granted) => granted.claims())
      .catch(refusal(services));
    const person = claims && personOf(services.config, claims);
    if (person !== undefined)
      return await door.begin(ctx, person, (made) => personSessions.begin(db, person, made));
    const who = claims ? nameIn(claims) : 'nobody';
    const { claim } = operatorRoles(services.config);
    const says = `You are signed in with your company, as ${who}, but have no role here: your claim “${claim}” names none`;
    throw new ApiError('insufficient_role', says);
  });
}

/** Says why nobody is signed in. The log has the provider's error. */
const refusal =
  ({ log }: Services) =>
  (err: unknown): never => {
    const { code = '', cause } = err as { code?: string; cause?: unknown };
    const reasons = { reason: messageOf(err), cause: cause instanceof Error ? messageOf(cause) : undefined };
    log.warn({ ...reasons, code }, 'a sign-in was refused');
    if (code === 'OAUTH_TIMEOUT' || err instanceof TypeError || code.startsWith('UND_ERR'))
      throw new ApiError(
        'temporarily_unavailable',
        'Your company’s identity provider does not answer. Try again; a link works without it',
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
    secret === undefined ? client.None() : client.ClientSecretPost(secret),
    { timeout: answerWithinSeconds, execute: [...insecure, client.enableNonRepudiationChecks] },
  );
  return { client, provider };
}

/** Returns the person with the highest role that the claim names; undefined if it names none. */
function personOf(config: Config, claims: IDToken): Person | undefined {
  const { claim, roles } = operatorRoles(config);
  const values = [claims[claim]].flat().map(String);
  const role = roles.findLast(([value]) => values.includes(value))?.[1];
  return role && { name: nameIn(claims), role, how: 'signed in' };
}

const nameIn = ({ name, preferred_username, email, sub }: IDToken): string =>
  String(email ?? preferred_username ?? name ?? sub)
    .replaceAll(/[\p{Cc}\p{Cf}]/gu, '')
    .slice(0, 64);

/** Returns where a person signs out of the company's account; undefined if the provider has no such address or does not answer. */
export async function signOutUrl(config: Config): Promise<string | undefined> {
  try {
    const { client, provider } = await ask(config);
    return provider.serverMetadata().end_session_endpoint && client.buildEndSessionUrl(provider).href;
  } catch {
    return undefined;
  }
}
