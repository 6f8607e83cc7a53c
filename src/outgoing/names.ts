import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { isIP } from 'node:net';
import { devNull } from 'node:os';
import { Dns, type DnsSettings, type ResolvedAddress } from './dns.js';
import { codeOf, oursByCode, unknownError } from './failures.js';

/** Finds all addresses of a name; rejects with an error that has a DNS `code`. */
export type Lookup = (hostname: string) => Promise<readonly ResolvedAddress[]>;

/** Resolves names to addresses, and says whether the resolver is the cause if a name has none. */
export interface Names {
  lookup: Lookup;
  /**
   * Waits until a name may be looked up.
   * @param onPermit called once, immediately if a permit is free. `end` gives the permit back: call it when the lookup has begun
   *   or is not wanted any more.
   */
  takePermit(hostname: string, onPermit: (end: () => void) => void): void;
  /** Whether the lookup under way of this name has no answer because the resolver does not answer anyone. */
  isSilentFor(hostname: string): Promise<boolean>;
}

/** The resolver does not answer at all; nothing is known about the name. */
export class ResolverSilent extends Error {
  override name = 'ResolverSilent';
  /** @param code with which the lookup ended */
  constructor(readonly code: string) {
    super(`the resolver does not answer (${code})`);
  }
}

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
  readonly #waiting: ((end: () => void) => void)[] = [];
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

  takePermit(hostname: string, onPermit: (end: () => void) => void): void {
    if (!this.#needsPermit(hostname)) onPermit(() => undefined);
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

  #givePermit(onPermit: (end: () => void) => void): void {
    let ended = false;
    onPermit(() => {
      if (!ended) this.#freePermit();
      ended = true;
    });
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
      throw new ResolverSilent(codeOf(error) ?? unknownError);
    }
  }
}

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
    if (oursByCode(codeOf(error) ?? '') !== undefined) throw error;
  }
}

/**
 * Reads the system's list of names (hosts(5)), again when the file has changed. It reads synchronously, not on one of libuv's
 * threads: the file is small and in the page cache.
 */
class HostsFile {
  #version = '';
  #names = new Map<string, ResolvedAddress[]>();

  constructor(readonly path = systemPath) {}

  /**
   * Returns the addresses of a name.
   * @param name in lower case, without a final dot
   * @returns in the order of the file, IPv4 first; empty if it is not listed
   * @throws errors of the file system, unless there is no such file or it may not be read
   */
  addressesOf(name: string): readonly ResolvedAddress[] {
    try {
      const { mtimeMs, size, ino } = statSync(this.path);
      const version = `${mtimeMs} ${size} ${ino}`;
      if (version !== this.#version) {
        this.#names = parse(readFileSync(this.path, 'utf8'));
        this.#version = version;
      }
    } catch (error) {
      if (!absentCodes.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
      this.#names.clear();
      this.#version = '';
    }
    return this.#names.get(name) ?? [];
  }
}

const systemPath = process.platform === 'win32' ? 'C:\\Windows\\System32\\drivers\\etc\\hosts' : '/etc/hosts';
const absentCodes = new Set(['ENOENT', 'EACCES']);

function parse(text: string): Map<string, ResolvedAddress[]> {
  const names = new Map<string, ResolvedAddress[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...listed] = line.replace(/#.*/, '').trim().split(/\s+/);
    const family = isIP(address);
    if (family === 0) continue;
    for (const name of listed) {
      const addresses = names.get(name.toLowerCase()) ?? [];
      addresses.push({ address, family: family === 6 ? 6 : 4 });
      addresses.sort((a, b) => a.family - b.family);
      names.set(name.toLowerCase(), addresses);
    }
  }
  return names;
}

/** The names of this system: one object, so that its bound holds for the whole process. */
export const systemNames = new SystemNames();
