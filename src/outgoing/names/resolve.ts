export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

/** Finds all addresses of a name; rejects with an error that has a DNS `code`. */
export type Lookup = (hostname: string) => Promise<readonly ResolvedAddress[]>;

/** Resolves names to addresses, and says whether the resolver is the cause if a name has none. */
export interface Names {
  lookup: Lookup;
  /**
   * Waits until a name may be looked up.
   * @param onPermit called once, immediately if a permit is free
   */
  takePermit(hostname: string, onPermit: (permit: LookupPermit) => void): void;
  /** Whether the lookup under way of this name has no answer because the resolver does not answer anyone. */
  isSilentFor(hostname: string): Promise<boolean>;
}

/** The right to one lookup, until the lookup has begun or is not wanted any more. */
export interface LookupPermit {
  end(): void;
}

/** The resolver does not answer at all; nothing is known about the name. */
export class ResolverSilent extends Error {
  override name = 'ResolverSilent';
  /** @param code with which the lookup ended */
  constructor(readonly code: string) {
    super(`the resolver does not answer (${code})`);
  }
}

/** Returns whether this error means that the name does not exist, rather than that there was no answer. */
export function saysUnknownHost(error: unknown): boolean {
  return unknownHostCodes.has(dnsCode(error) ?? '');
}

/** Returns the `code` of an error, if it has one. */
export function dnsCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

const unknownHostCodes = new Set(['ENOTFOUND', 'ENODATA', 'ENONAME', 'EBADNAME', 'EAI_NONAME', 'EAI_NODATA']);
