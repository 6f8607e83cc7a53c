import { closeSync, openSync } from 'node:fs';
import { devNull } from 'node:os';
import type { Pausable } from './clock.js';
import { Dns, type DnsSettings } from './dns.js';
import { HostsFile } from './hosts-file.js';
import { oursByCode } from './ours.js';
import { dnsCode, type Names, type ResolvedAddress, ResolverSilent } from './resolve.js';

export interface NameSettings extends DnsSettings {
  /** Instead of the system's `hosts`. */
  hostsPath?: string;
  /** How many names DNS is asked for at once (256); the others wait. */
  maxAtOnce?: number;
}

interface Asking {
  readonly hostname: string;
  readonly answer: Promise<readonly ResolvedAddress[]>;
  /** On the clock of `performance.now()`; undefined while it waits. */
  begunAtMs?: number;
  begin(): void;
  /** The clocks that stand still until it begins. */
  readonly clocks: Pausable[];
}

/**
 * Names as the system knows them, without getaddrinfo: that blocks one of libuv's four threads for as long
 * as a name server keeps silent, so four dead names would hold up every other name, and every file.
 *
 * | name | answer |
 * |---|---|
 * | `localhost`, `*.localhost` (RFC 6761) | loopback: the addresses that `hosts` gives `localhost`, or 127.0.0.1 |
 * | `*.invalid` (RFC 6761) | does not exist |
 * | in `hosts` | what stands there; DNS is not asked, as is the usual order of a system |
 * | any other, also without a dot (a container's name) | DNS, as it is: search lists are not applied |
 *
 * Lookups of one name at once ask once. A bounded number of names is asked for at once; who waits for a turn
 * waits for this service, so the clock of the attempt stands still.
 */
export class SystemNames implements Names {
  readonly #dns: Dns;
  readonly #hosts: HostsFile;
  readonly #maxAtOnce: number;
  readonly #asking = new Map<string, Asking>();
  readonly #waiting: Asking[] = [];
  #begun = 0;

  constructor(settings: NameSettings = {}) {
    this.#dns = new Dns(settings);
    this.#hosts = new HostsFile(settings.hostsPath);
    this.#maxAtOnce = settings.maxAtOnce ?? 256;
  }

  readonly lookup = async (hostname: string, clock?: Pausable): Promise<readonly ResolvedAddress[]> => {
    const known = this.#withoutDns(hostname);
    if (known.length > 0) return known;
    const asking = this.#asking.get(hostname) ?? this.#ask(hostname);
    if (asking.begunAtMs === undefined && clock !== undefined) {
      clock.pause();
      asking.clocks.push(clock);
    }
    return asking.answer;
  };

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

  #ask(hostname: string): Asking {
    let begin = (): void => undefined;
    const turn = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const answer = turn.then(() => this.#askDns(asking)).finally(() => this.#end(asking));
    const asking: Asking = { hostname, answer, begin, clocks: [] };
    this.#asking.set(hostname, asking);
    if (this.#begun < this.#maxAtOnce) this.#begin(asking);
    else this.#waiting.push(asking);
    return asking;
  }

  #begin(asking: Asking): void {
    this.#begun++;
    asking.begunAtMs = performance.now();
    for (const clock of asking.clocks) clock.resume();
    asking.begin();
  }

  #end({ hostname }: Asking): void {
    this.#asking.delete(hostname);
    this.#begun--;
    const next = this.#waiting.shift();
    if (next !== undefined) this.#begin(next);
  }

  async #askDns({ hostname, begunAtMs = 0 }: Asking): Promise<readonly ResolvedAddress[]> {
    try {
      return await this.#dns.addressesOf(hostname);
    } catch (error) {
      if (!(await this.#dns.answersNobody(begunAtMs))) throw error;
      refuseWithoutDescriptors();
      throw new ResolverSilent(dnsCode(error) ?? 'unknown error');
    }
  }
}

/** The names of this system: one for the process, so that its bound holds for all of it. */
export const systemNames = new SystemNames();

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

/**
 * c-ares needs a socket for a question, and where it gets none says only that no server could be reached.
 * @throws EMFILE or ENFILE when there are no descriptors left
 */
function refuseWithoutDescriptors(): void {
  try {
    closeSync(openSync(devNull, 'r'));
  } catch (error) {
    if (oursByCode(dnsCode(error) ?? '') !== undefined) throw error;
  }
}
