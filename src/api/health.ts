import type { Middleware } from 'koa';
import type { ApiDeps } from './deps.js';
import { endpoint } from './endpoint.js';
import { checkReadiness } from './readiness.js';

/** GET /healthz: this process is alive. */
export const healthzEndpoint: Middleware[] = endpoint(async (ctx) => {
  ctx.body = { status: 'ok' };
});

/** GET /readyz: Redis and Temporal are reachable, and the process is not about to end. */
export function readyzEndpoint({ db, temporal, ending }: ApiDeps): Middleware[] {
  return endpoint(async (ctx) => {
    const ready = await checkReadiness(db, temporal);
    ctx.status = ready.redis && ready.temporal && !ending?.() ? 200 : 503;
    ctx.body = { status: ctx.status === 200 ? 'ready' : 'not ready', ...ready };
  });
}
