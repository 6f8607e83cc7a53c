import type { Next, ParameterizedContext } from 'koa';
import type { ApiError } from './apiError.js';

interface ApiState {
  requestId: string;
  /** The account or network by which the call is paced. */
  line?: string;
  /** Set for a call that its line refuses. */
  refusal?: ApiError;
  /** True once its refusal was held. */
  isHeld?: true;
  /** For how long the call waited because its caller asked for that, or for too much. */
  waitedMs?: number;
  /** True if the service, or what it stands on, made the call fail. */
  isOurs?: boolean;
  /** True once an operator's token or session was found. */
  isOperator?: boolean;
  /** Answers an error with a page, for browsers. */
  showError?: (err: ApiError) => void;
}

/** Koa's context of a request and its answer, with the state so far and the parameters of the path. */
export type ApiContext = ParameterizedContext<
  ApiState,
  { params: Readonly<Record<string, string | undefined>>; _matchedRoute?: string | RegExp }
>;

export type Step = (ctx: ApiContext, next: Next) => unknown;
