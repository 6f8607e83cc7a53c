import { Resolver, lookup as systemLookup } from 'node:dns/promises';

export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

/** All addresses of a name; rejects with an error that has a DNS `code`. */
export type Lookup = (hostname: string) => Promise<readonly ResolvedAddress[]>;

/**
 * Asks DNS without a thread: the system's own lookup blocks one of libuv's four threads for as long as
 * a dead name server keeps silent, so four such names would hold up every other receiver. Only a name
 * that DNS does not know, or that is local by its form, goes to the system (hosts file, search list).
 * Several connections to one name at once ask once.
 */
export const resolveHost: Lookup = (hostname) => {
  let asking = inFlight.get(hostname);
  if (asking === undefined) {
    asking = resolve(hostname).finally(() => inFlight.delete(hostname));
    inFlight.set(hostname, asking);
  }
  return asking;
};

/** Does this error say that the name does not exist (rather than that nobody answered)? */
export function saysUnknownHost(error: unknown): boolean {
  return unknownHostCodes.has(dnsCode(error) ?? '');
}

export function dnsCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

const unknownHostCodes = new Set(['ENOTFOUND', 'ENODATA', 'ENONAME', 'EBADNAME', 'EAI_NONAME', 'EAI_NODATA']);

const inFlight = new Map<string, Promise<readonly ResolvedAddress[]>>();

async function resolve(hostname: string): Promise<readonly ResolvedAddress[]> {
  const name = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
  if (!name.includes('.') || name.endsWith('.localhost')) return askSystem(name);
  const asked = currentResolver();
  const [v4, v6] = await Promise.allSettled([asked.resolve4(hostname), asked.resolve6(hostname)]);
  const found: ResolvedAddress[] = [];
  if (v4.status === 'fulfilled') for (const address of v4.value) found.push({ address, family: 4 });
  if (v6.status === 'fulfilled') for (const address of v6.value) found.push({ address, family: 6 });
  if (found.length > 0) return found;
  const reasons = [v4, v6].flatMap((r): unknown[] => (r.status === 'rejected' ? [r.reason] : []));
  const silent = reasons.find((r) => !saysUnknownHost(r) && dnsCode(r) !== 'ECONNREFUSED');
  if (silent !== undefined) throw silent;
  return askSystem(hostname);
}

async function askSystem(hostname: string): Promise<readonly ResolvedAddress[]> {
  const found = await systemLookup(hostname, { all: true, order: 'ipv4first' });
  return found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }));
}

/** A resolver reads the list of name servers once; a laptop or a container may get others. */
const resolverKeptMs = 60_000;
let resolver: { madeAtMs: number; ask: Resolver } | undefined;

function currentResolver(): Resolver {
  const nowMs = Date.now();
  if (resolver === undefined || nowMs - resolver.madeAtMs > resolverKeptMs) {
    resolver = { madeAtMs: nowMs, ask: new Resolver({ timeout: 1_500, tries: 2 }) };
  }
  return resolver.ask;
}
