import type { LookupAddress } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { AttemptFailed, anywhere, codeOf, hasRoute, lookupFailed, oursByCode } from './failures.js';

export interface FoundAddress extends LookupAddress {
  /** How long DNS lets the answer be used, s. */
  ttlSeconds?: number;
}

/** Finds all addresses of a name; rejects with an error that has a DNS `code`, or with an own failure. */
export type Lookup = (hostname: string) => Promise<readonly FoundAddress[]>;

/** Resolves names to addresses, and says whether the resolver is the cause if a name has none. */
export type Names = Pick<SystemNames, 'lookup' | 'isResolverSilent'>;

export interface NameSettings {
  /** Name servers (`127.0.0.1:5353`) instead of those of the system. */
  servers?: readonly string[];
  /** Time of a question's first try at one server (1,500). */
  timeoutMs?: number;
  /** Tries at each server (2). */
  tries?: number;
  /** How long the answer for one family is waited for once that for the other has come (50; RFC 8305, section 3). */
  otherFamilyMs?: number;
  /** Instead of the kernel's answer. */
  hasRoute?: typeof hasRoute;
  /** Instead of the system's `hosts`. */
  hostsPath?: string;
}

const systemHosts =
  process.platform === 'win32' ? 'C:\\Windows\\System32\\drivers\\etc\\hosts' : '/etc/hosts';
/** Of thousands each would be judged before every connection; what is left out is never connected to. */
const maxAddresses = 64;
/** A verdict on the resolver is shared by all callers within a second. */
const rememberedMs = 1_000;
/** c-ares looks at its timeouts in steps of the same length, so the question may take twice as long. */
const neutralQuestionTimeoutMs = 500;
/** Until after a second try of the question, since a packet may be lost. */
const reachableFamilyMs = 3_500;
/** The list of name servers is read again after this time: a laptop or a container may change its servers. */
const serversKeptMs = 60_000;

/** One name server: a resolver for each try, with twice the time of the try before. */
type NameServer = readonly Resolver[];

/**
 * Looks up names as the system knows them, by c-ares. It waits for name servers on the event loop; getaddrinfo blocks one
 * of libuv's four threads for as long as a name server keeps silent, so four dead names would hold up every other name, and
 * every file.
 *
 * | name | answer |
 * |---|---|
 * | `localhost`, `*.localhost` (RFC 6761) | loopback: the addresses that `hosts` gives `localhost`, or 127.0.0.1 |
 * | `*.invalid` (RFC 6761) | does not exist |
 * | in `hosts` | the addresses there; DNS is not asked, as is the usual order of a system |
 * | any other, also without a dot (a container's name) | DNS, as it is: search lists are not applied |
 *
 * A name server that answers for one family and is silent about the other delays nothing, unless this host has a route to the other
 * alone. Concurrent lookups of one name ask once.
 *
 * Each name server has resolvers of its own: Node has c-ares take SERVFAIL, REFUSED and NOTIMP of the first for the last word,
 * where glibc asks the next (nodejs/node, cares_wrap.cc: ARES_FLAG_NOCHECKRESP).
 */
export class SystemNames {
  readonly #asking = new Map<string, Promise<FoundAddress[]>>();
  #servers: { readAtMs: number; inTurn: NameServer[] } | undefined;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  #neutral: { askedAtMs: number; isSilent: Promise<boolean> } | undefined;

  constructor(readonly settings: NameSettings = {}) {}

  readonly lookup: Lookup = async (hostname) => {
    const name = hostname.toLowerCase().replace(/\.$/, '');
    if (name.endsWith('.invalid')) throw Object.assign(new Error('reserved'), { code: 'ENOTFOUND' });
    const hosts = readHosts(this.settings.hostsPath ?? systemHosts);
    if (name === 'localhost' || name.endsWith('.localhost')) {
      const listed = addressesIn(hosts, 'localhost').filter(({ address }) => /^(127\.|::1$)/.test(address));
      return listed.length > 0 ? listed : [{ address: '127.0.0.1', family: 4 }];
    }
    const listed = addressesIn(hosts, name);
    return listed.length > 0 ? listed : this.#askOnce(hostname);
  };

  /**
   * Distinguishes dead name servers of this host from those of one customer. Any name that got an answer since `sinceMs` shows that
   * one works. Otherwise all are asked for the root's name servers, which belong to no customer.
   * @param sinceMs on the clock of `performance.now()`
   */
  async isResolverSilent(sinceMs: number): Promise<boolean> {
    if (this.#answeredAtMs >= sinceMs) return false;
    const nowMs = performance.now();
    if (this.#neutral === undefined || nowMs - this.#neutral.askedAtMs > rememberedMs) {
      const isSilent = this.#addresses().map((server) =>
        resolverOf(server, neutralQuestionTimeoutMs)
          .resolveNs('.')
          .then(() => false, isUnanswered),
      );
      const areSilent = Promise.all(isSilent).then((all) => all.every(Boolean));
      this.#neutral = { askedAtMs: nowMs, isSilent: areSilent };
    }
    return this.#neutral.isSilent;
  }

  #askOnce(hostname: string): Promise<FoundAddress[]> {
    const asked = this.#asking.get(hostname);
    const answer = asked ?? this.#ask(hostname).finally(() => this.#asking.delete(hostname));
    this.#asking.set(hostname, answer);
    return answer;
  }

  /** Returns a name's addresses, IPv4 first. */
  async #ask(hostname: string): Promise<FoundAddress[]> {
    const askedAtMs = performance.now();
    const questions = [
      this.#askInTurn(async (resolver) => requireAddress(await resolver.resolve4(hostname, { ttl: true }))),
      this.#askInTurn(async (resolver) => requireAddress(await resolver.resolve6(hostname, { ttl: true }))),
    ];
    const answers = await this.#bothOrSoon(questions);
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []));
    const reasons: unknown[] = answers.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    const isAnswered = found.length > 0 || !reasons.every(isUnanswered);
    if (isAnswered) this.#answeredAtMs = performance.now();
    if (found.length > 0)
      return found
        .slice(0, maxAddresses)
        .map(({ address, ttl }) => ({ address, family: isIP(address), ttlSeconds: ttl }));
    const reason = mostTelling(reasons);
    const { failure } = lookupFailed(reason);
    if (!isAnswered && (await this.isResolverSilent(askedAtMs))) {
      const why = `no name server has an answer (${codeOf(reason)})`;
      throw new AttemptFailed({ ...failure, ours: failure.ours ?? 'resolver', why });
    }
    // A server that answers other questions refuses only TCP, which it asks for where an answer fits no datagram.
    if (codeOf(reason) !== 'ECONNREFUSED') throw reason;
    throw new AttemptFailed({ error: 'dns', detail: 'name_server_truncated' });
  }

  /**
   * Asks the name servers in turn until one answers, and those that were silent once more. A server that has no answer where another
   * has comes last from then on.
   */
  async #askInTurn<T>(ask: (resolver: Resolver) => Promise<T>): Promise<T> {
    const servers = this.#currentServers();
    const failures = new Map<NameServer, unknown>();
    for (const round of servers[0]?.keys() ?? [])
      for (const server of [...servers]) {
        const resolver = server[round];
        if (resolver === undefined || (round > 0 && codeOf(failures.get(server)) !== 'ETIMEOUT')) continue;
        const [answer] = await Promise.allSettled([ask(resolver)]);
        if (answer.status === 'rejected' && isUnanswered(answer.reason)) {
          failures.set(server, answer.reason);
          continue;
        }
        servers.sort((a, b) => Number(failures.has(a)) - Number(failures.has(b)));
        if (answer.status === 'rejected') throw answer.reason;
        return answer.value;
      }
    throw mostTelling([...failures.values()]);
  }

  /** Waits for all answers; once one is of use, not for long. Some servers deny a whole name that has none of a family (RFC 4074). */
  #bothOrSoon<T extends { address: string }>(questions: readonly Promise<T[]>[]) {
    const { otherFamilyMs = 50, hasRoute: isRouted = hasRoute } = this.settings;
    const given = questions.map(async (question) => {
      const address = (await question)[0]?.address ?? '';
      const other = anywhere.find((one) => isIP(one) !== isIP(address)) ?? '';
      const isFutile = !(await isRouted(address)) && (await isRouted(other));
      return sleep(isFutile ? reachableFamilyMs : otherFamilyMs, undefined, { ref: false });
    });
    const late = Promise.any(given).then(() => Promise.reject(new Error('late')));
    return Promise.allSettled(questions.map((question) => Promise.race([question, late])));
  }

  #currentServers(): NameServer[] {
    const nowMs = performance.now();
    if (this.#servers === undefined || nowMs - this.#servers.readAtMs > serversKeptMs) {
      const { timeoutMs = 1_500, tries = 2 } = this.settings;
      const inTurn = this.#addresses().map((server) =>
        Array.from({ length: tries }, (_, round) => resolverOf(server, timeoutMs * 2 ** round)),
      );
      this.#servers = { readAtMs: nowMs, inTurn };
    }
    return this.#servers.inTurn;
  }

  /** Returns `undefined` for the only one of the system: c-ares knows the scope of a link-local address, which Node's list lacks. */
  #addresses(): readonly (string | undefined)[] {
    const { servers = new Resolver().getServers() } = this.settings;
    return this.settings.servers === undefined && servers.length < 2 ? [undefined] : servers;
  }
}

function resolverOf(server: string | undefined, timeoutMs: number): Resolver {
  const resolver = new Resolver({ timeout: timeoutMs, tries: 1 });
  if (server !== undefined) resolver.setServers([server]);
  return resolver;
}

/** Rejects an alias of a name without an address: c-ares resolves it to none. */
function requireAddress<T>(found: T[]): T[] {
  if (found.length === 0) throw Object.assign(new Error('no address'), { code: 'ENODATA' });
  return found;
}

const answerCodes = new Set(['ENOTFOUND', 'ENODATA', 'EBADNAME']);

/**
 * Returns whether a question failed without an answer. NXDOMAIN is an answer. SERVFAIL, REFUSED, NOTIMP and FORMERR are not: a resolver
 * on this host answers them to every query while it is cut off from the network, or has no server to ask.
 */
const isUnanswered = (error: unknown): boolean => !answerCodes.has(codeOf(error));

/** Returns what says most: the failure of a server that sent something, else of one that was silent, else of one that is not there. */
function mostTelling(reasons: readonly unknown[]): unknown {
  const isSilent = (error: unknown) => codeOf(error) === 'ETIMEOUT';
  const unanswered = reasons.filter(isUnanswered);
  const sent = unanswered.find((error) => !isSilent(error) && codeOf(error) !== 'ECONNREFUSED');
  return sent ?? unanswered.find(isSilent) ?? unanswered[0] ?? reasons[0];
}

/** Reads hosts(5) synchronously, not on one of libuv's threads: it is small and cached. If it cannot be read, it has no names. */
function readHosts(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (oursByCode(codeOf(error)) === 'descriptors') throw error;
    return '';
  }
}

/** Returns the addresses that a list gives a name, IPv4 first. @param name in lower case, without a final dot */
function addressesIn(hosts: string, name: string): LookupAddress[] {
  const found: LookupAddress[] = [];
  for (const line of hosts.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().toLowerCase().split(/\s+/);
    if (isIP(address) !== 0 && names.includes(name)) found.push({ address, family: isIP(address) });
  }
  return found.sort((a, b) => a.family - b.family);
}

/** The names of this system: one object, so that concurrent lookups of one name ask once in the whole process. */
export const systemNames = new SystemNames();
