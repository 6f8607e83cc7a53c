import type { Middleware } from 'koa';
import { composeSteps } from '../composeSteps.js';
import type { ApiDeps } from '../deps.js';

/** GET /healthz: answers that this process is alive. */
export const healthzEndpoint: Middleware[] = composeSteps(async (ctx) => {
  ctx.body = { status: 'ok' };
});

/** GET /readyz: answers whether this process can do its work, and which servers answer it. */
export function readyzEndpoint({ readiness }: ApiDeps): Middleware[] {
  return composeSteps(async (ctx) => {
    const found = await readiness();
    ctx.status = found.status === 'ready' ? 200 : 503;
    ctx.body = found;
  });
}
