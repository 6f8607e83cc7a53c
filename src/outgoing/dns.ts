import { Resolver } from 'node:dns/promises';
import { codeOf } from './failures.js';

export interface ResolvedAddress {
  address: string;
  family: 4 | 6;
}

/** Returns whether this error means that the name does not exist, rather than that there was no answer. */
export function saysUnknownHost(error: unknown): boolean {
  return unknownHostCodes.has(codeOf(error) ?? '');
}

const unknownHostCodes = new Set(['ENOTFOUND', 'ENODATA', 'ENONAME', 'EBADNAME', 'EAI_NONAME', 'EAI_NODATA']);

export interface DnsSettings {
  /** Name servers (`127.0.0.1:5353`) instead of those of the system. */
  servers?: readonly string[];
  /** Time of a question's first try at one server (1,500). */
  timeoutMs?: number;
  /** Tries at each server (2). */
  tries?: number;
}

/** A verdict on the resolver is shared by all callers within a second. */
const rememberedMs = 1_000;
/** c-ares looks at its timeouts in steps of the same length, so the question may take twice as long. */
const neutralQuestionTimeoutMs = 500;
/** A resolver reads the list of name servers once; a laptop or a container may change its servers. */
const resolverKeptMs = 60_000;

/** DNS by c-ares, which waits for name servers on the event loop and takes none of libuv's threads. */
export class Dns {
  #resolver: { madeAtMs: number; ask: Resolver } | undefined;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  #neutral: { endedAtMs?: number; answered: Promise<boolean> } | undefined;

  constructor(readonly settings: DnsSettings = {}) {}

  /** Returns a name's addresses, IPv4 first. @throws an error with a DNS `code` if there are none */
  async addressesOf(hostname: string): Promise<readonly ResolvedAddress[]> {
    const resolver = this.#currentResolver();
    const [v4, v6] = await Promise.allSettled([
      this.#noting(resolver.resolve4(hostname)),
      this.#noting(resolver.resolve6(hostname)),
    ]);
    const found: ResolvedAddress[] = [];
    if (v4.status === 'fulfilled') for (const address of v4.value) found.push({ address, family: 4 });
    if (v6.status === 'fulfilled') for (const address of v6.value) found.push({ address, family: 6 });
    if (found.length > 0) return found;
    const reasons = [v4, v6].flatMap((r): unknown[] => (r.status === 'rejected' ? [r.reason] : []));
    throw reasons.find((reason) => !saysUnknownHost(reason)) ?? reasons[0];
  }

  /**
   * Distinguishes a dead resolver from one customer's dead name servers. Any name that got an answer since `sinceMs` shows that
   * the resolver works. Otherwise the resolver is asked for the root's name servers, which belong to no customer.
   * All callers within a second share its answer.
   *
   * NXDOMAIN and REFUSED are answers. SERVFAIL is not, because a resolver on this host answers it to every query
   * while it is cut off from the network.
   *
   * @param sinceMs on the clock of `performance.now()`
   */
  async answersNobody(sinceMs: number): Promise<boolean> {
    if (this.#answeredAtMs >= sinceMs) return false;
    return !(await this.#answersNeutralQuestion());
  }

  #answersNeutralQuestion(): Promise<boolean> {
    const known = this.#neutral;
    const isFresh = known?.endedAtMs === undefined || performance.now() - known.endedAtMs < rememberedMs;
    if (known !== undefined && isFresh) return known.answered;
    const resolver = this.#makeResolver(neutralQuestionTimeoutMs, 1);
    const asked: { endedAtMs?: number; answered: Promise<boolean> } = {
      answered: this.#noting(resolver.resolveNs('.'))
        .then(() => true, isAnswer)
        .finally(() => {
          asked.endedAtMs = performance.now();
        }),
    };
    this.#neutral = asked;
    return asked.answered;
  }

  async #noting<T>(question: Promise<T>): Promise<T> {
    try {
      const answer = await question;
      this.#answeredAtMs = performance.now();
      return answer;
    } catch (error) {
      if (isAnswer(error)) this.#answeredAtMs = performance.now();
      throw error;
    }
  }

  #currentResolver(): Resolver {
    const nowMs = Date.now();
    if (this.#resolver === undefined || nowMs - this.#resolver.madeAtMs > resolverKeptMs) {
      const { timeoutMs = 1_500, tries = 2 } = this.settings;
      this.#resolver = { madeAtMs: nowMs, ask: this.#makeResolver(timeoutMs, tries) };
    }
    return this.#resolver.ask;
  }

  #makeResolver(timeoutMs: number, tries: number): Resolver {
    const resolver = new Resolver({ timeout: timeoutMs, tries });
    if (this.settings.servers !== undefined) resolver.setServers(this.settings.servers);
    return resolver;
  }
}

const answerCodes = new Set(['ENOTFOUND', 'ENODATA', 'EREFUSED', 'EFORMERR', 'ENOTIMP', 'EBADRESP']);

function isAnswer(error: unknown): boolean {
  return answerCodes.has(codeOf(error) ?? '');
}
