import { isIP } from 'node:net';
import { domainToUnicode } from 'node:url';
import { withTimeout } from '../promises.js';
import { comparableName, judgeAddress, ownNames, type TargetPolicy, withOwnNames } from './address.js';
import { explainFailure } from './details.js';
import { lookupFailed, saysUnknownHost } from './failures.js';
import { type Lookup, systemNames } from './names.js';

/** Why a URL is refused, and what to send instead. */
export const targetRefusals = {
  not_absolute: [
    'The URL is not absolute, has no valid host and port, or has spaces, backslashes or invisible characters.',
    'Send the whole address from `https://` on, percent-encoded once: a `+` as `%2B`, a `&` as `%26`.',
  ],
  scheme: ['The URL is not `https://`.', 'Send the `https://` address of the same endpoint.'],
  too_long: ['The URL has more than 2,048 bytes, percent-encoded.', 'Send a shorter one.'],
  credentials: [
    'The URL has a user name or a password.',
    'Leave `user:password@` out: each notification is signed, and the path or the query may hold a secret.',
  ],
  fragment: [
    'The URL has a fragment.',
    'Leave out the `#` and everything after it: HTTP requests do not carry it.',
  ],
  repaired: [
    'A request would go to another URL than the one given: `.` or `..` between slashes, or host or port in an unusual form.',
    'Send the URL as a browser shows it after loading it.',
  ],
  unknown_host: [
    'The host name of the URL does not exist, or has no address (A, AAAA).',
    'Correct the name, or wait until it is in DNS.',
  ],
  not_public: [
    'The host of the URL has an address that is not public.',
    'Send a URL that the internet can reach.',
  ],
  own_address: ['The URL leads to this service itself.', 'Send the URL of your own endpoint.'],
} as const satisfies Record<string, readonly [meaning: string, remedy: string]>;

export type TargetRefusal = keyof typeof targetRefusals;

/** Makes a message of what is wrong and what to do: plain text, without the point at its end. */
export const asMessage = ([meaning, remedy]: readonly [string, string]): string =>
  `${meaning} ${remedy}`.replaceAll('`', '').slice(0, -1);

/** The URL cannot be registered. The message names the rule, contains no part of the URL, and may be shown. */
export class TargetRefused extends Error {
  override name = 'TargetRefused';
  constructor(readonly reason: TargetRefusal) {
    super(asMessage(targetRefusals[reason]));
  }
}

/** DNS did not say in time whether the host exists. The URL may be fine. @param why if its own name servers are the cause */
export class ResolverUnavailable extends Error {
  override name = 'ResolverUnavailable';
  constructor(why = 'The name in the url could not be looked up') {
    super(`${why}: try again in 5 s`);
  }
}

/**
 * Checks the rules that need no network: form, scheme, length, and the address if the host is one.
 * @returns the URL as it will be used
 * @throws TargetRefused
 */
export function checkTargetForm(url: string, policy: TargetPolicy): URL {
  if (Buffer.byteLength(url) > maxUrlBytes) throw new TargetRefused('too_long');
  // URL() repairs many mistakes, and then the registered URL would differ from the one sent.
  if (!absoluteForm.test(url) || unusualCharacters.test(url)) throw new TargetRefused('not_absolute');
  const parsed = parseUrl(url);
  const scheme = url.slice(0, url.indexOf(':')).toLowerCase();
  if (scheme !== 'https' && !(scheme === 'http' && policy.allowHttp)) throw new TargetRefused('scheme');
  if (parsed === undefined || parsed.hostname === '') throw new TargetRefused('not_absolute');
  // The length as sent: percent-encoding makes nine characters of one.
  if (parsed.href.length > maxUrlBytes) throw new TargetRefused('too_long');
  if (withCredentials.test(url)) throw new TargetRefused('credentials');
  if (url.includes('#')) throw new TargetRefused('fragment');
  const host = hostOf(parsed);
  if (isIP(host) !== 0) refuseUnlessAllowed(host, portOf(parsed), policy);
  if (ownNames(policy).includes(comparableName(host))) throw new TargetRefused('own_address');
  if (isRepaired(url, host)) throw new TargetRefused('repaired');
  return parsed;
}

/**
 * Returns whether a request would go elsewhere than the URL says to a reader: `URL()` resolves `.` and `..` in the path, also
 * percent-encoded, and rewrites hosts (`0x7f.1`, full-width letters, percent-encoded ones) and ports (`:0443`, none after the colon).
 * Upper case, international names, IPv6, the scheme's own port and characters that must be percent-encoded stay allowed.
 */
function isRepaired(url: string, host: string): boolean {
  const [, authority = '', path = ''] = /^[^/]*\/\/([^/?]*)([^?]*)/.exec(url) ?? [];
  if (path.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) return true;
  const [, name = '', port] = /^(\[.*\]|[^:]*)(?::(.*))?$/.exec(authority) ?? [];
  if (port !== undefined && !/^[1-9]\d*$/.test(port)) return true;
  const written = name.toLowerCase().normalize();
  return isIP(host) !== 6 && written !== host && written !== domainToUnicode(host);
}

/**
 * Checks a URL at its registration: form, then every address of its name. The connection of each attempt checks again,
 * because a name may change its answer.
 * @throws TargetRefused
 * @throws ResolverUnavailable when DNS does not answer within `timeoutMs` (5 s)
 */
export async function checkTarget(
  url: string,
  policy: TargetPolicy,
  lookup = systemNames.lookup,
  timeoutMs = 5_000,
) {
  const parsed = checkTargetForm(url, policy);
  const host = hostOf(parsed);
  const port = portOf(parsed);
  if (policy.namesByProxy && isIP(host) === 0) return;
  const ask = (name: string) => lookUp(name, lookup, timeoutMs);
  const [found, known] = await Promise.all([
    isIP(host) === 0 ? ask(host) : [{ address: host }],
    withOwnNames(policy, ask),
  ]);
  for (const { address } of found) refuseUnlessAllowed(address, port, known);
}

/** Returns whether the check of this URL looks up a name: not for an address, nor for text that is not a URL. */
export function needsLookup(url: string): boolean {
  const parsed = parseUrl(url);
  return parsed !== undefined && isIP(hostOf(parsed)) === 0;
}

/**
 * Parses a URL; undefined if the text is not a URL. `URL.canParse` cannot be used: once Node 20 has compiled a call of it,
 * it refuses every URL with a character that is not ASCII.
 */
export function parseUrl(text: string): URL | undefined {
  try {
    return new URL(text);
  } catch {
    return undefined;
  }
}

/** Returns the scheme and host of a receiver's URL, the part that many may see: its path and query may hold a secret. */
export const originOf = (url: string): string => new URL(url).origin;

/** Returns the host name or IP literal, without the brackets of an IPv6 address. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '');

export function portOf(url: URL): number {
  if (url.port !== '') return Number(url.port);
  return url.protocol === 'http:' ? 80 : 443;
}

const maxUrlBytes = 2_048;
const absoluteForm = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]/i;
/** Controls, halves of surrogate pairs, and invisible characters that turn or split the URL where a person reads it: they must be percent-encoded. */
const unusualCharacters = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp} ]|^[^?#]*\\/u;
const withCredentials = /^[^/]*\/\/[^/?#]*@/;

function refuseUnlessAllowed(address: string, port: number, policy: TargetPolicy): void {
  const verdict = judgeAddress(address, port, policy);
  if (verdict !== 'allowed') throw new TargetRefused(verdict);
}

async function lookUp(host: string, lookup: Lookup, timeoutMs: number) {
  try {
    return await withTimeout(lookup(host), timeoutMs, () => {
      throw new ResolverUnavailable();
    });
  } catch (error) {
    if (error instanceof ResolverUnavailable) throw error;
    const { failure } = lookupFailed(error);
    if (saysUnknownHost(failure)) throw new TargetRefused('unknown_host');
    const why = failure.ours ? undefined : `The host of the url ${explainFailure(failure).does}`;
    throw new ResolverUnavailable(why);
  }
}
