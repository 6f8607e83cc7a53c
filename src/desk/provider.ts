/**
 * The company's identity provider: OpenID Connect, authorization code with PKCE. It is asked for its
 * addresses and keys at each sign-in, which are few: it may change its keys at any time.
 */
import type { Configuration, IDToken } from 'openid-client';
import { type Config, operatorRoles } from '../config.js';
import type { Person } from '../redis/records/operatorAccess.js';

export const isProviderGiven = (config: Config): boolean => config.OPERATOR_OIDC_ISSUER !== undefined;

const answerWithinSeconds = 5;

/** Asks the provider for its addresses and keys. @throws if it does not answer */
export async function ask(config: Config) {
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
export function personOf(config: Config, claims: IDToken): Person | undefined {
  const { claim, roles } = operatorRoles(config);
  const values = [claims[claim]].flat().map(String);
  const role = roles.findLast(([value]) => values.includes(value))?.[1];
  return role && { name: nameIn(claims), role, how: 'signed in' };
}

export const nameIn = ({ name, preferred_username, email, sub }: IDToken): string =>
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
