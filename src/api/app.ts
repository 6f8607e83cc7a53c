import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import Router from '@koa/router';
import Koa, { type Context } from 'koa';
import { ApiError, logUnexpected, presentProblem, toApiError, unavailable } from '../http/apiError.js';
import { whileDropping } from '../http/body.js';
import { clientAddress } from '../http/clientAddress.js';
import type { ApiContext, Step } from '../http/context.js';
import { accountLimits, createFailureLimits } from '../http/limits.js';
import { Remembered } from '../http/rates.js';
import type { Logger } from '../log.js';
import type { Metrics } from '../metrics.js';
import { checkMarks, requireData } from '../redis/connection/mark.js';
import { ignore, isRedisUnavailable } from '../redis/connection/unavailable.js';
import { fingerprintOf } from '../redis/records/accounts.js';
import { mountFiles } from '../web/files.js';
import { consoleFiles } from '../web/page.js';
import { getHealthCall, getReadinessCall } from './calls/service.js';
import { calls } from './calls.js';
import { mountConsole } from './console/mount.js';
import type { ApiDeps, Services } from './deps.js';
import { docsFiles } from './reference/docs.js';
import { openapiCall } from './reference/openapi.js';
import { createLines, healthPaths, oneByOne, type Pace } from './steps/pace.js';
import { bearerToken, tokenFinder } from './steps/publisher.js';

/** Builds the HTTP edge: every path with its call, and the middlewares around them. */
export function createApi(services: Services): Koa {
  const { db, config, log, metrics } = services;
  const lines = createLines(services);
  services.closing?.addEventListener('abort', services.updateWaits.end);
  const deps: ApiDeps = {
    ...services,
    findToken: tokenFinder(db),
    ...accountLimits(db, config.ACCOUNT_RATE_PER_SECOND),
    failures: createFailureLimits(db),
    paceAccount: lines.account,
    inTurn: oneByOne(config),
    usedUp: new Remembered<number>(10_000),
    auditedTokens: new Remembered<true>(10_000),
  };
  // A path in another case, or with a slash at its end, is another path, so that rules of a proxy by path hold here too.
  const router = new Router({ sensitive: true, strict: true });
  const literal = new Map<string, { path: string; answer: (ctx: Context) => unknown }>();
  for (const { method, path, middleware } of [...calls, openapiCall]) {
    const answer = middleware(deps);
    router[method](path.replaceAll(/\{(\w+)\}/g, ':$1'), answer);
    if (!path.includes('{')) literal.set(`${method.toUpperCase()} ${path}`, { path, answer });
  }
  mountFiles(router, { ...docsFiles, ...consoleFiles });
  mountConsole(router, deps);

  const paths = [...calls, openapiCall].map(({ path }) => path);
  const { pace, holdRefusal } = lines;
  const around = { count: services.minutes.count, pace: pace(deps), holdRefusal, paths };
  const app = createEdge({ log, metrics, trustedProxies: config.TRUSTED_PROXIES, ...around });
  app.use(async (ctx, next) => {
    if (healthPaths.has(ctx.path)) return next();
    requireData(db);
    try {
      await next();
    } catch (err) {
      // An emptied store knows nobody, and a caller may take that for final.
      const unknown = ['invalid_client', 'invalid_token', 'unknown_client'];
      if (err instanceof ApiError && unknown.includes(err.code)) {
        await checkMarks(db).catch(ignore);
        requireData(db);
      }
      throw err;
    }
  });
  // A path without parameters is looked up. The router tries every pattern for each request, which takes at least 8 % of the
  // service's CPU for a token call (figures in docs/dependencies.md).
  app.use((ctx, next) => {
    const found = literal.get(`${ctx.method} ${ctx.path}`);
    if (found === undefined) return next();
    ctx._matchedRoute = found.path;
    return found.answer(ctx);
  });
  app.use(router.routes());
  app.use(router.allowedMethods());
  return app;
}

interface Edge {
  log: Logger;
  metrics: Metrics;
  trustedProxies?: readonly string[];
  count?(field: string): unknown;
  pace?: Pace;
  holdRefusal?(ctx: ApiContext): unknown;
  /** Of the calls. */
  paths?: readonly string[];
}

/** Builds what stands around the answers of any port: it names, observes and checks each request, and answers every error. */
export function createEdge(edge: Edge): Koa {
  const { log, pace, holdRefusal, paths = [] } = edge;
  const app = new Koa();
  app.use(readTarget);
  if (pace) app.use(pace.step);
  app.use(nameRequest);
  app.use(async (ctx, next) => {
    await next();
    if (ctx.status === 429) await holdRefusal?.(ctx as ApiContext);
    if (ctx.status === 413 || ctx.status === 408) readOn(ctx);
  });
  app.use(observe(edge));
  app.use(answerErrors(log, paths));
  app.use(checkHead);
  const callback = app.callback.bind(app);
  app.callback = () => {
    const handle = callback();
    return async (req, res) => {
      await pace?.admit(req as IncomingMessage);
      await handle(req, res);
    };
  };
  // Errors after the answer was handed over, such as a caller that hung up.
  app.on('error', (err: NodeJS.ErrnoException) => log.debug({ reason: err.code }, 'connection error'));
  return app;
}

/** Refuses a target that is no URL. It has no path, for which every step asks: they go on with another. */
const readTarget: Step = (ctx, next) => {
  if (!hasPath(ctx)) {
    ctx.req.url = '/';
    ctx.state.refusal = new ApiError('malformed_request', 'The target of the request is no path and no URL');
  }
  return next();
};

function hasPath(ctx: ApiContext): boolean {
  try {
    return Boolean(ctx.path);
  } catch {
    return false;
  }
}

/** Answers while a process starts: health checks, and 503 to every other call. */
export function createStartingApi(services: Pick<Services, 'log' | 'metrics' | 'readiness'>, ...own: Step[]) {
  const app = createEdge(services);
  for (const step of own) app.use(step);
  app.use((ctx) => {
    const health = [getHealthCall, getReadinessCall].find(({ path }) => path === ctx.path);
    if (health === undefined) throw unavailable('the process starts');
    return health.middleware(services as ApiDeps)(ctx);
  });
  return app;
}

/** Answers every error of a request that was read. server.ts refuses those that could not be read. */
function answerErrors(log: Logger, paths: readonly string[]): Step {
  /** By the name of the cause. */
  const toldAtMs = new Map<string, number>();
  /** Why Redis does not serve is told elsewhere. Any other cause is told once a minute. */
  const levelOf = ({ cause }: ApiError): 'warn' | 'debug' => {
    if (!(cause instanceof Error) || isRedisUnavailable(cause)) return 'debug';
    if (performance.now() - (toldAtMs.get(cause.name) ?? Number.NEGATIVE_INFINITY) < 60_000) return 'debug';
    toldAtMs.set(cause.name, performance.now());
    return 'warn';
  };
  return async (ctx, next) => {
    try {
      if (ctx.state.refusal) throw ctx.state.refusal;
      await next();
      if (ctx.status >= 400 && !ctx.body) throw unanswered(ctx, paths);
    } catch (err) {
      const { requestId: request_id } = ctx.state;
      const known = toApiError(err);
      if (known === undefined) logUnexpected(log, err, { request_id });
      if (known?.status === 503)
        log[levelOf(known)]({ reason: joinCauses(known), request_id }, 'answered 503');
      const answered = known ?? new ApiError('server_error', 'Something went wrong on our side');
      ctx.status = answered.status;
      ctx.state.isOurs = ['server_error', 'temporarily_unavailable'].includes(answered.code);
      ctx.set(answered.headers);
      if (ctx.state.showError) ctx.state.showError(answered);
      else ctx.body = presentProblem(answered, ctx.path, request_id);
    }
  };
}

/** Has the rest of a body that is too long or too slow read before the connection is closed, whoever has refused it. */
function readOn(ctx: Context): void {
  const text = typeof ctx.body === 'string' ? ctx.body : JSON.stringify(ctx.body);
  ctx.body = Readable.from(whileDropping(ctx.req, text));
  ctx.length = Buffer.byteLength(text);
  ctx.set('Connection', 'close');
}

/** The router answers 405, or 501 for a method that no path has, such as TRACE: for a caller both are the same. @param paths of the calls */
function unanswered(ctx: Pick<ApiContext, 'method' | 'path' | 'res'>, paths: readonly string[]): ApiError {
  const allow = ctx.res.getHeader('Allow');
  if (!allow) return new ApiError('not_found', sayPath(ctx.path, paths));
  const methods: string[] = String(allow).match(/\b(?!HEAD|OPTIONS)[A-Z]+/g) ?? [];
  const isRedirected = ctx.method === 'GET' && methods.includes('POST');
  const hint = isRedirected ? ' (a redirect, as from http to https, makes a GET of a POST)' : '';
  return new ApiError(
    'method_not_allowed',
    `${ctx.method} is not allowed at this path: send ${methods.join(' or ')}${hint}`,
  );
}

/** Names the path that is meant by one in another case, with other slashes, or behind a prefix. */
function sayPath(given: string, paths: readonly string[]): string | undefined {
  const path = given.replaceAll(/\/{2,}/g, '/').replace(/\/$/, '');
  const endsIn = (known: string) => new RegExp(`${known.replaceAll(/\{\w+\}/g, '[^/]+')}$`, 'i').test(path);
  const [meant] = paths.filter(endsIn).sort((one, other) => other.length - one.length);
  return (
    meant && `There is nothing at this address: the path is ${meant}, in lower case and without other slashes`
  );
}

/** Returns the messages of an error's causes, without the errors: a Redis error carries its command with the arguments. */
function joinCauses({ cause }: Error): string {
  if (!(cause instanceof Error)) return String(cause ?? 'a dependency does not answer');
  return cause.cause === undefined ? cause.message : `${cause.message}: ${joinCauses(cause)}`;
}

/** Refuses heads that Node's server would refuse without a body, or of which it would take a part: the first of two, or up to a #. */
const checkHead: Step = (ctx, next) => {
  const { headers, httpVersion, rawHeaders, url } = ctx.req;
  if (url?.includes('#'))
    throw new ApiError('malformed_request', 'The path and the query must be percent-encoded: a # as %23');
  const names = rawHeaders.map((text, i) => (i % 2 === 0 ? text.toLowerCase() : ''));
  for (const name of ['host', 'authorization', 'content-type']) {
    if (names.indexOf(name) !== names.lastIndexOf(name))
      throw new ApiError('malformed_request', `The header ${name} is repeated`);
  }
  if (httpVersion === '1.1') {
    if (headers.host === undefined) throw new ApiError('malformed_request', 'The header Host is missing');
    if (headers.expect && !/\b100-continue\b/i.test(headers.expect))
      throw new ApiError('expectation_failed', 'The header Expect allows only 100-continue');
  }
  return next();
};

const acceptable = /^[A-Za-z0-9._-]{8,64}$/;

/** Sets the request's id: the caller's X-Request-Id if it has a safe form, else a new one. */
const nameRequest: Step = (ctx, next) => {
  const given = ctx.req.headers['x-request-id'];
  const requestId = typeof given === 'string' && acceptable.test(given) ? given : randomUUID();
  ctx.state.requestId = requestId;
  ctx.res.setHeader('X-Request-Id', requestId);
  return next();
};

/**
 * Writes one log line and one measurement per request: the route's pattern, never the path, query or headers. Successes
 * of very frequent calls are logged at debug level: at thousands a second the metrics say more, and the lines
 * would be a tenth of the cost of a request. A caller who is refused is named by address, and by the fingerprint of the token.
 */
function observe({ log, metrics, trustedProxies = [], count = ignore }: Edge): Step {
  // No field below may hold a secret, because the redaction is skipped: it is half of the cost of the line.
  const requests = log.child({}, { redact: [] });
  return async (ctx, next) => {
    const begun = performance.now() - (ctx.state.waitedMs ?? 0);
    await next();
    const ms = performance.now() - begun - (ctx.state.waitedMs ?? 0);
    const route = String(ctx._matchedRoute ?? 'none');
    const { status } = ctx;
    metrics.answered({ method: knownMethods.has(ctx.method) ? ctx.method : 'other', route, status }, ms);
    if (!healthPaths.has(ctx.path)) {
      count('total');
      if (ctx.state.isOurs) count('failed');
    }
    const level = status < 400 && busyRoutes.has(route) ? 'debug' : 'info';
    const { requestId: request_id } = ctx.state;
    const about = { route, method: ctx.method, status, ms: Math.round(ms * 10) / 10, request_id };
    const token = bearerToken(ctx);
    const caller = [401, 403, 429].includes(status) && {
      address: clientAddress(ctx.req, trustedProxies),
      ...(token !== undefined && { fingerprint: fingerprintOf(token) }),
    };
    requests[level]({ ...about, ...caller }, 'request');
  };
}

const busyRoutes = new Set(['/oauth/access_token', '/enrichments', '/healthz', '/readyz', '/metrics']);
const knownMethods = new Set(['GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'DELETE', 'PATCH']);
