import type { Pausable } from './clock.js';

export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

/**
 * All addresses of a name; rejects with an error that has a DNS `code`.
 * @param clock stands still while the name waits until it may be asked for
 */
export type Lookup = (hostname: string, clock?: Pausable) => Promise<readonly ResolvedAddress[]>;

/** How names become addresses, and whether it is to blame for a name that has none. */
export interface Names {
  lookup: Lookup;
  /** Whether the lookup of this name, which is still under way, has no answer because nobody gets any. */
  isSilentFor(hostname: string): Promise<boolean>;
}

/** The resolver answers nobody at all; nothing is known of the name. */
export class ResolverSilent extends Error {
  override name = 'ResolverSilent';
  /** @param code with which the lookup ended */
  constructor(readonly code: string) {
    super(`the resolver answers nobody (${code})`);
  }
}

/** Does this error say that the name does not exist (rather than that nobody answered)? */
export function saysUnknownHost(error: unknown): boolean {
  return unknownHostCodes.has(dnsCode(error) ?? '');
}

export function dnsCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

const unknownHostCodes = new Set(['ENOTFOUND', 'ENODATA', 'ENONAME', 'EBADNAME', 'EAI_NONAME', 'EAI_NODATA']);
