import type { StartedParts } from '../compose.js';
import type { Readiness } from '../http/admin.js';
import type { ApiContext } from '../http/context.js';
import type { accountLimits, createFailureLimits } from '../http/limits.js';
import type { Remembered } from '../http/rates.js';
import type { TargetPolicy } from '../outgoing/address.js';
import type { Lookup } from '../outgoing/names.js';
import type { tokenFinder } from './steps/publisher.js';

export interface Services extends StartedParts {
  targetPolicy: TargetPolicy;
  /** The answer of /readyz; not ready once the process was told to stop, so that a balancer sends no more. */
  readiness: () => Promise<Readiness>;
  /** Aborted when the server is about to close, to end long-lived answers. */
  closing?: AbortSignal;
  /** Resolves the names of URLs to register; tests pass their own. */
  lookup?: Lookup;
}

/** The dependencies of the calls: parts of the service, and what the API remembers from call to call. */
export interface ApiDeps extends Services, ReturnType<typeof accountLimits> {
  findToken: ReturnType<typeof tokenFinder>;
  /** Counts a call with an account's credentials in this process. @throws ApiError 429 */
  paceAccount: (ctx: Pick<ApiContext, 'req' | 'state'>, accountId: string) => Promise<void>;
  /** Carries out the long calls of one line one after another. @throws ApiError 429 */
  inTurn: <T>(ctx: Pick<ApiContext, 'state'>, line: string, work: () => Promise<T>) => Promise<T>;
  failures: ReturnType<typeof createFailureLimits>;
  /** Credentials, hashed, whose rate of tokens is used up, with the time until when (ms). */
  usedUp: Remembered<number>;
  /** The first tokens of the day that the audit has. */
  auditedTokens: Remembered<true>;
}
