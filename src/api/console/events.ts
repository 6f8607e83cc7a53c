import { PassThrough } from 'node:stream';
import type { Middleware } from 'koa';
import { tooMany } from '../apiError.js';
import type { ApiDeps } from '../deps.js';
import { secretOf } from './access/session.js';
import { sitePageSteps } from './pageSteps.js';
import { Viewers } from './viewers.js';

/**
 * GET /console/sites/{site}/events: server-sent events (HTML standard, section 9.2). `changed`: the page's parts are worth
 * fetching again; `ended`: the session is over.
 */
export function eventsEndpoint(deps: ApiDeps): Middleware[] {
  const viewers = new Viewers(deps.db, deps.log);
  deps.closing?.addEventListener('abort', () => viewers.close());
  return sitePageSteps(deps, async (ctx) => {
    const stream = new PassThrough();
    const secret = secretOf(ctx.req, deps) ?? '';
    if (!viewers.add({ clientToken: ctx.state.client.clientToken, secret, stream })) {
      throw tooMany('Too many pages of the console are open', 60_000);
    }
    // A proxy in between would buffer a few bytes until more follow.
    ctx.set('X-Accel-Buffering', 'no');
    // A connection that stays open after the stream would delay the end of this process.
    ctx.set('Connection', 'close');
    ctx.type = 'text/event-stream';
    ctx.body = stream;
  });
}
