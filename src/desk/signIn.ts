/** Signs people in with the company's identity provider: the way there and back. */
import type { Middleware } from 'koa';
import { ApiError, badParameter } from '../api/apiError.js';
import { publicOrigin, redirect, sessionCookies } from '../api/console/sessionCookie.js';
import type { Services, StepContext } from '../api/step.js';
import { operatorRoles } from '../config.js';
import { messageOf } from '../log.js';
import { keepForSecret, useKept } from '../redis/records/kept.js';
import { comeIn, openPage, reachedOf } from './people.js';
import { ask, isProviderGiven, nameIn, personOf } from './provider.js';

const signInMs = 10 * 60_000;

/** What a sign-in at the identity provider is checked against when the browser comes back. */
type SignIn = Record<'verifier' | 'state' | 'nonce', string>;

const callbackUrl = (ctx: StepContext<unknown>, services: Services): URL =>
  new URL('/desk/callback', publicOrigin(ctx.req, reachedOf(services)));

/** The cookie that ties a sign-in to the browser in which it began. */
const signInCookies = (services: Services) => sessionCookies('desk_sign_in', reachedOf(services));

/** GET /desk/sign_in: leads the browser to the provider. */
export function signInEndpoint(services: Services): Middleware[] {
  return openPage(async (ctx) => {
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
export function callbackEndpoint(services: Services): Middleware[] {
  return openPage(async (ctx) => {
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
    if (person !== undefined) return await comeIn(services, ctx, person);
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
