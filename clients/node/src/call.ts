import { setTimeout as sleep } from 'node:timers/promises';

/** The options of both clients. */
export interface ServiceOptions {
  /** Address of the service, such as `https://notifications.example.com`: http or https, without user, query and fragment. */
  url: string;
  clientId: string;
  clientSecret: string;
  /** The longest time of a call; default 15,000. */
  timeoutMs?: number;
  /** Told why a call is made again; default a warning of Node at the first failure in a row. */
  onRetry?: (reason: string, failures: number) => void;
  /** Replaces Node's own, for a proxy or tracing. */
  fetch?: typeof fetch;
}

/** One HTTP call. Status 0: the service did not answer, and what became of the call is unknown. */
export interface Answer {
  status: number;
  body: Record<string, unknown>;
  /** Why the service did not answer. */
  error?: string;
  /** It took longer than it may. */
  isLate?: boolean;
  /** How long the service asks to wait; 0 if it does not. */
  retryAfterMs: number;
}

const maxBackOffMs = 10_000;

/** Makes the calls of one client, and ends them. */
export class Caller {
  readonly #underWay = new Set<AbortController>();
  readonly #url: string;
  readonly #options: ServiceOptions;
  #isEnded = false;

  /** @throws RangeError that names an option which no call could be made with */
  constructor(options: ServiceOptions) {
    this.#url = addressOf(options.url);
    checkNumber('timeoutMs', options.timeoutMs ?? 1, 86_400_000);
    // A variable that is not set would be sent as the word `undefined`.
    for (const name of ['clientId', 'clientSecret'] as const)
      if (!options[name]) throw new RangeError(`${name} must not be empty`);
    this.#options = options;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Whatever is under way, or begins from now on, ends at once. */
  end(): void {
    this.#isEnded = true;
    for (const one of this.#underWay) one.abort();
  }

  /**
   * @param member which the service's answer has if the call succeeds
   * @param waitMs for how long the service may wait before it answers
   */
  async call(
    method: 'GET' | 'POST',
    path: string,
    member: string,
    init: RequestInit,
    waitMs = 0,
  ): Promise<Answer> {
    const { fetch: given = fetch, timeoutMs = 15_000 } = this.#options;
    return await this.#endable(async (aborter) => {
      const late = new Error(`nothing within ${waitMs + timeoutMs} ms`);
      const timer = setTimeout(() => aborter.abort(late), waitMs + timeoutMs);
      try {
        // A redirect would carry the token elsewhere.
        const fixed = { method, redirect: 'manual', signal: aborter.signal } as const;
        const response = await given(this.#url + path, { ...init, ...fixed });
        const { ok, status, headers } = response;
        const body = parsed(await response.text());
        // Not the service's, such as the maintenance page of a proxy.
        if (ok && !body[member]) throw new Error(`${status} without ${member}`);
        return { status, body, retryAfterMs: retryAfterOf(headers) };
      } catch (err) {
        const isLate = aborter.signal.reason === late;
        return { status: 0, body: {}, error: reasonOf(err as Error), isLate, retryAfterMs: 0 };
      } finally {
        clearTimeout(timer);
      }
    });
  }

  /**
   * Says why a call is made again.
   * @param failures how many calls in a row have failed
   * @param again what the next call does
   */
  tell({ status, error, retryAfterMs }: Answer, failures: number, again: string): void {
    const asked = retryAfterMs > 0 ? `, to wait ${Math.ceil(retryAfterMs / 1000)} s` : '';
    const reason = status === 0 ? `no answer (${error})` : `status ${status}${asked}`;
    const { onRetry = warnFirst } = this.#options;
    const told = async () => onRetry(`${this.#url}: ${reason}; ${again}`, failures);
    // What waits for an answer must not be lost with it.
    told().catch((err) => process.emitWarning(`onRetry threw: ${err}`, 'asset-update-client'));
  }

  /** Waits before a call is made again. */
  async pause({ retryAfterMs }: Answer, failures: number): Promise<void> {
    const backOffMs = Math.min(100 * 2 ** (failures - 1), maxBackOffMs);
    // Up to a quarter more, so that refused callers do not all return at the same time.
    await this.wait(Math.max(retryAfterMs, backOffMs) * (1 + Math.random() / 4));
  }

  async wait(ms: number): Promise<void> {
    await this.#endable(({ signal }) => sleep(ms, undefined, { signal }).catch(() => undefined));
  }

  /** Each has a controller of its own: what `AbortSignal.any` derives from one that lives long is never freed in Node 20. */
  async #endable<T>(work: (aborter: AbortController) => Promise<T>): Promise<T> {
    const aborter = new AbortController();
    if (this.#isEnded) aborter.abort();
    this.#underWay.add(aborter);
    try {
      return await work(aborter);
    } finally {
      this.#underWay.delete(aborter);
    }
  }
}

/** @throws RangeError without the value, which may hold a secret */
function addressOf(url: string): string {
  if (URL.canParse(url)) {
    const { protocol, username, password, search, hash, origin, pathname } = new URL(url);
    const more = username + password + search + hash;
    if (/^https?:$/.test(protocol) && more === '') return (origin + pathname).replace(/\/+$/, '');
  }
  throw new RangeError('url must be an http or https address, without user, query and fragment');
}

/** @throws RangeError that names the option */
export function checkNumber(option: string, value: number, most = Number.MAX_SAFE_INTEGER, least = 1): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw new RangeError(`${option} must be a whole number from ${least} to ${most}`);
}

/**
 * Whether the same call may succeed later. Sending an event again is always safe. A refusal of the service has a code: another
 * one, such as the page of a proxy, says nothing about the call. 413 is about the call, whoever answers.
 */
export function isPassing({ status, body }: Answer): boolean {
  if (status === 0 || status === 408 || status === 429 || status >= 500) return true;
  return status >= 300 && status !== 413 && typeof (body.code ?? body.error) !== 'string';
}

/** The error in an answer: `{code, msg}`, or RFC 6749's `{error, error_description}`. */
export function problemOf({ status, body }: Answer): { code: string; msg: string } {
  const { code, msg, error, error_description } = body;
  return {
    code: String(code ?? error ?? 'unexpected_answer'),
    msg: String(msg ?? error_description ?? `The service answered ${status}`),
  };
}

function parsed(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text));
  } catch {
    return {};
  }
}

/** Seconds or a date (RFC 9110, section 10.2.3); a day at most. A date counts from the answer's own: this clock may be wrong. */
function retryAfterOf(headers: Headers): number {
  const value = headers.get('retry-after') ?? '';
  const now = Date.parse(headers.get('date') ?? '') || Date.now();
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now;
  return Math.min(Math.max(ms || 0, 0), 86_400_000);
}

/** The innermost cause says why, such as a proxy's refusal; of several addresses Node gives only the code. */
function reasonOf({ message, code, cause }: NodeJS.ErrnoException): string {
  return cause instanceof Error ? reasonOf(cause) : message || String(code);
}

function warnFirst(reason: string, failures: number): void {
  if (failures === 1) process.emitWarning(reason, 'asset-update-client');
}
