import type { Client } from '@temporalio/client';
import type { DefaultContext, Middleware, Next, ParameterizedContext } from 'koa';
import compose from 'koa-compose';
import type { Config } from '../config.js';
import type { Accepting } from '../delivery/accept.js';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics.js';
import type { Notices } from '../notices/notices.js';
import type { TargetPolicy } from '../outgoing/address.js';
import type { Lookup } from '../outgoing/names.js';
import type { Sender } from '../outgoing/post.js';
import type { Db } from '../redis/connection/db.js';
import type { SecretBox } from '../redis/records/secretBox.js';
import type { CatchUps } from '../temporal/catchUps.js';
import type { Tracing } from '../tracing.js';

/** The answer of GET /readyz. */
export interface Readiness {
  status: 'ready' | 'not ready';
  redis: boolean;
  temporal: boolean;
}

/** The dependencies of the endpoints. */
export interface ApiDeps {
  config: Config;
  db: Db;
  log: Logger;
  temporal: Client;
  accepting: Accepting;
  catchUps: CatchUps;
  notices: Pick<Notices, 'tell'>;
  sender: Sender;
  secretBox: SecretBox;
  metrics: Metrics;
  targetPolicy: TargetPolicy;
  /** The answer of /readyz; not ready once the process was told to stop, so that a balancer sends no more. */
  readiness: () => Promise<Readiness>;
  /** Aborted when the server is about to close, to end long-lived answers. */
  closing?: AbortSignal;
  /** Resolves the names of URLs to register; tests pass their own. */
  lookup?: Lookup;
  /** Undefined: tracing is off. */
  tracing?: Tracing;
}

export interface Parameter {
  value: string;
  /** As it was in the query. */
  raw: string;
}

export type Parameters = ReadonlyMap<string, Parameter>;

/** The state of every request. */
export interface ApiState {
  requestId: string;
  /** The parameters of the query, once a step has asked for them. */
  parameters?: Parameters;
}

/** Koa's context of a request and its answer, with the state so far and the parameters of the path. */
export type StepContext<State> = ParameterizedContext<
  ApiState & State,
  { params: Readonly<Record<string, string | undefined>>; _matchedRoute?: string | RegExp }
>;

/**
 * Does one thing for a request. Its type says what it reads from the state and adds to it: a step that needs less
 * state fits every endpoint that has more.
 */
export type Step<State = unknown> = (ctx: StepContext<State>, next: Next) => unknown;

/**
 * Composes an endpoint from its steps, in this order. For the router they are one middleware; otherwise it would
 * compose them for each request.
 */
export function composeSteps<State>(...steps: Step<State>[]): Middleware[] {
  const run = compose(steps);
  return [(ctx, next) => run(ctx as DefaultContext & StepContext<State>, next)];
}
