import { setTimeout as sleep } from 'node:timers/promises';

/** One HTTP call. Status 0: no answer came, and what became of the call is unknown. */
export interface Answer {
  status: number;
  body: unknown;
  /** Why no answer came. */
  error?: string;
  /** What the service asks to wait. */
  retryAfterMs?: number;
}

/** Makes the calls of one client, and ends them. */
export class Caller {
  readonly #underWay = new Set<AbortController>();
  #isEnded = false;

  constructor(
    private readonly fetch: typeof globalThis.fetch,
    private readonly timeoutMs: number,
  ) {}

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Whatever is under way, or begins from now on, ends at once. */
  end(): void {
    this.#isEnded = true;
    for (const one of this.#underWay) one.abort();
  }

  async call(method: 'GET' | 'POST', url: string, init: RequestInit): Promise<Answer> {
    return await this.#endable(async (aborter) => {
      const timer = setTimeout(() => aborter.abort(), this.timeoutMs);
      try {
        // A redirect would carry the token elsewhere.
        const fixed = { method, redirect: 'manual', signal: aborter.signal } as const;
        const response = await this.fetch(url, { ...init, ...fixed });
        const retryAfterMs = retryAfterOf(response.headers.get('retry-after'));
        const body = parsed(await response.text());
        return { status: response.status, body, ...(retryAfterMs !== undefined && { retryAfterMs }) };
      } catch (err) {
        const { message, cause } = err as Error;
        return { status: 0, body: undefined, error: cause instanceof Error ? cause.message : message };
      } finally {
        clearTimeout(timer);
      }
    });
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

/** Whether the same call may succeed later. Sending an event again is always safe. */
export function isPassing({ status }: Answer): boolean {
  return status === 0 || status === 408 || status === 429 || status >= 500;
}

/** The error in an answer: `{code, msg}`, or RFC 6749's `{error, error_description}`. */
export function problemOf({ status, body }: Answer): { code: string; msg: string } {
  const { code, msg, error, error_description } = (body ?? {}) as Record<string, unknown>;
  return {
    code: String(code ?? error ?? 'unexpected_answer'),
    msg: String(msg ?? error_description ?? `The service answered ${status}`),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Seconds or a date (RFC 9110, section 10.2.3); a day at most. */
function retryAfterOf(value: string | null): number | undefined {
  if (value === null) return undefined;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), 86_400_000);
}
