import Koa, { type Context } from 'koa';
import type { Config } from '../config.js';
import type { Metrics } from '../metrics.js';
import { withTimeout } from '../promises.js';
import type { RedisReason } from '../redis/connection/unavailable.js';
import type { Step } from './context.js';
import { connectionLimits, listen } from './server.js';

/** An operation may take longer than a caller of the API is silent. */
const limits = { ...connectionLimits, silenceMs: 0 };

/**
 * Opens the operators' port of a process, on ADMIN_HOST: GET /metrics, /healthz, /readyz. `serve` has the desk answer every other path.
 * @param sdkMetrics text that follows our own
 * @param pages by path, answered from the beginning too
 */
export async function listenAdmin(
  { ADMIN_HOST, ADMIN_PORT }: Pick<Config, 'ADMIN_HOST' | 'ADMIN_PORT'>,
  { registry }: Pick<Metrics, 'registry'>,
  readiness: () => Promise<Readiness>,
  sdkMetrics: () => Promise<string> = () => Promise.resolve(''),
  pages: Record<string, (ctx: Context) => Promise<Buffer | null>> = {},
) {
  const answers: Record<string, Step> = {
    async '/metrics'(ctx) {
      const texts = await Promise.all([registry.metrics(), sdkMetrics()]);
      ctx.set('Content-Type', registry.contentType);
      ctx.body = texts.join('\n');
    },
    '/healthz'(ctx) {
      ctx.body = { status: 'ok' };
    },
    async '/readyz'(ctx) {
      const found = await readiness();
      ctx.status = found.status === 'ready' ? 200 : 503;
      ctx.body = found;
    },
  };
  for (const [path, page] of Object.entries(pages))
    answers[path] = async (ctx) => {
      ctx.body = await page(ctx);
    };
  const own: Step = (ctx, next) => {
    const answer = answers[ctx.path];
    if (answer === undefined) return next();
    ctx._matchedRoute = ctx.path;
    if (ctx.method === 'GET' || ctx.method === 'HEAD') return answer(ctx, next);
    ctx.status = 405;
    ctx.set('Allow', 'GET, HEAD');
  };
  const app = new Koa();
  app.silent = true;
  app.use(own);
  const server = await listen({ HOST: ADMIN_HOST, PORT: ADMIN_PORT }, app, limits);
  return {
    port: server.port,
    /** Has another app answer, which begins with the port's own answers. */
    serve(app: (own: Step) => Koa): void {
      server.serve(app(own));
    },
    close: () => server.close(true),
  };
}

/** How long one check serves all callers, and the longest that it may take: frequent callers cost nothing more. */
export const lookEveryMs = 1000;

/**
 * Checks whether this process can do its work: Redis serves, and the process was not told to stop. Temporal may be
 * unavailable: accepted events are owed in Redis, and all processes share the same Temporal.
 * @param ask asks each server; a call ends soon after `lookEveryMs`
 */
export function createReadiness(ask: {
  redis: () => Promise<unknown>;
  temporal: () => Promise<unknown>;
  /** Or not begun. */
  ending: () => boolean;
  /** Why Redis refuses calls. */
  refused?: () => RedisReason[];
}) {
  const lookAtRedis = sharedLook(ask.redis);
  const lookAtTemporal = sharedLook(ask.temporal);
  return async () => {
    const [redis, temporal] = await Promise.all([lookAtRedis(), lookAtTemporal()]);
    const isReady = redis && !ask.ending();
    const status: 'ready' | 'not ready' = isReady ? 'ready' : 'not ready';
    const told = isReady ? [] : (ask.refused?.() ?? []);
    // A connection that has just been closed, or is silent, has given no reason yet.
    const reasons: RedisReason[] = redis || told.length > 0 ? told : ['away'];
    return { status, redis, temporal, ...(reasons.length > 0 && { reasons }) };
  };
}

export type Readiness = Awaited<ReturnType<ReturnType<typeof createReadiness>>>;

/** Checks whether a server answers. While a call is under way no other is made. */
function sharedLook(ask: () => Promise<unknown>): () => Promise<boolean> {
  let nextAtMs = 0;
  let answer = Promise.resolve(false);
  return () => {
    const nowMs = performance.now();
    if (nowMs >= nextAtMs) {
      nextAtMs = Number.POSITIVE_INFINITY;
      const asked = ask().then(
        () => true,
        () => false,
      );
      answer = withTimeout(asked, lookEveryMs, () => false);
      void asked.then(() => {
        nextAtMs = nowMs + lookEveryMs;
      });
    }
    return answer;
  };
}
