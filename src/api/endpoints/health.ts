import type { Middleware } from 'koa';
import type { ApiDeps } from '../deps.js';
import { endpoint } from '../endpoint.js';

/** GET /healthz: answers that this process is alive. */
export const healthzEndpoint: Middleware[] = endpoint(async (ctx) => {
  ctx.body = { status: 'ok' };
});

/** GET /readyz: answers whether this process can do its work, and which servers answer it. */
export function readyzEndpoint({ readiness }: ApiDeps): Middleware[] {
  return endpoint(async (ctx) => {
    const found = await readiness();
    ctx.status = found.status === 'ready' ? 200 : 503;
    ctx.body = found;
  });
}
