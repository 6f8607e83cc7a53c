import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';
import { oursByCode } from '../ours.js';
import { Dns, type DnsSettings } from './dns.js';
import { HostsFile } from './hostsFile.js';
import { dnsCode, type LookupPermit, type Names, type ResolvedAddress, ResolverSilent } from './resolve.js';

export interface NameSettings extends DnsSettings {
  /** Instead of the system's `hosts`. */
  hostsPath?: string;
  /** Names that DNS is asked for at the same time (256), if every caller takes a permit. */
  concurrency?: number;
}

interface Asking {
  /** On the clock of `performance.now()`. */
  readonly begunAtMs: number;
  readonly answer: Promise<readonly ResolvedAddress[]>;
}

/**
 * Looks up names as the system knows them, without getaddrinfo, which blocks one of libuv's four threads for as long
 * as a name server keeps silent, so four dead names would hold up every other name, and every file.
 *
 * | name | answer |
 * |---|---|
 * | `localhost`, `*.localhost` (RFC 6761) | loopback: the addresses that `hosts` gives `localhost`, or 127.0.0.1 |
 * | `*.invalid` (RFC 6761) | does not exist |
 * | in `hosts` | the addresses there; DNS is not asked, as is the usual order of a system |
 * | any other, also without a dot (a container's name) | DNS, as it is: search lists are not applied |
 *
 * Concurrent lookups of one name ask once. A place waits for a permit to look up its name before its attempt begins, so
 * that the resolver is not flooded. The rare lookup for a stale connection's replacement takes no permit: the bound may
 * then be exceeded.
 */
export class SystemNames implements Names {
  readonly #dns: Dns;
  readonly #hosts: HostsFile;
  readonly #concurrency: number;
  readonly #asking = new Map<string, Asking>();
  readonly #waiting: ((permit: LookupPermit) => void)[] = [];
  /** Permits that are given, and lookups under way. */
  #busy = 0;

  constructor(settings: NameSettings = {}) {
    this.#dns = new Dns(settings);
    this.#hosts = new HostsFile(settings.hostsPath);
    this.#concurrency = settings.concurrency ?? 256;
  }

  readonly lookup = async (hostname: string): Promise<readonly ResolvedAddress[]> => {
    const known = this.#withoutDns(hostname);
    if (known.length > 0) return known;
    const asking = this.#asking.get(hostname) ?? this.#ask(hostname);
    return asking.answer;
  };

  takePermit(hostname: string, onPermit: (permit: LookupPermit) => void): void {
    if (!this.#needsPermit(hostname)) onPermit(noPermit);
    else if (this.#busy < this.#concurrency) {
      this.#busy++;
      this.#givePermit(onPermit);
    } else this.#waiting.push(onPermit);
  }

  async isSilentFor(hostname: string): Promise<boolean> {
    const sinceMs = this.#asking.get(hostname)?.begunAtMs;
    return sinceMs !== undefined && (await this.#dns.answersNobody(sinceMs));
  }

  #withoutDns(hostname: string): readonly ResolvedAddress[] {
    const name = (hostname.endsWith('.') ? hostname.slice(0, -1) : hostname).toLowerCase();
    if (name.endsWith('.invalid')) throw Object.assign(new Error('reserved'), { code: 'ENOTFOUND' });
    if (name !== 'localhost' && !name.endsWith('.localhost')) return this.#hosts.addressesOf(name);
    const listed = this.#hosts.addressesOf('localhost').filter(({ address }) => isLoopback(address));
    return listed.length > 0 ? listed : [{ address: '127.0.0.1', family: 4 }];
  }

  #needsPermit(hostname: string): boolean {
    try {
      return !this.#asking.has(hostname) && this.#withoutDns(hostname).length === 0;
    } catch {
      // The lookup throws the same error, and translates it.
      return false;
    }
  }

  #givePermit(onPermit: (permit: LookupPermit) => void): void {
    let ended = false;
    const end = (): void => {
      if (!ended) this.#freePermit();
      ended = true;
    };
    onPermit({ end });
  }

  #freePermit(): void {
    this.#busy--;
    if (this.#busy >= this.#concurrency) return;
    const next = this.#waiting.shift();
    if (next === undefined) return;
    this.#busy++;
    // Many waiters may have given up, and each ends its permit at once: not one within the other.
    queueMicrotask(() => this.#givePermit(next));
  }

  #ask(hostname: string): Asking {
    this.#busy++;
    const begunAtMs = performance.now();
    const answer = this.#askDns(hostname, begunAtMs).finally(() => {
      this.#asking.delete(hostname);
      this.#freePermit();
    });
    const asking = { begunAtMs, answer };
    this.#asking.set(hostname, asking);
    return asking;
  }

  async #askDns(hostname: string, begunAtMs: number): Promise<readonly ResolvedAddress[]> {
    try {
      return await this.#dns.addressesOf(hostname);
    } catch (error) {
      if (!(await this.#dns.answersNobody(begunAtMs))) throw error;
      refuseWithoutDescriptors();
      throw new ResolverSilent(dnsCode(error) ?? 'unknown error');
    }
  }
}

/** The names of this system: one object, so that its bound holds for the whole process. */
export const systemNames = new SystemNames();

const noPermit: LookupPermit = { end: () => undefined };

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

/**
 * Distinguishes a lack of descriptors from silent servers: without a socket for its question c-ares says only that no server
 * could be reached.
 * @throws EMFILE or ENFILE if there are no descriptors left
 */
function refuseWithoutDescriptors(): void {
  try {
    closeSync(openSync(devNull, 'r'));
  } catch (error) {
    if (oursByCode(dnsCode(error) ?? '') !== undefined) throw error;
  }
}
