import type { Traceparent, Tracing } from '../../tracing.js';
import { toApiError } from '../apiError.js';
import type { Step } from '../step.js';

export interface TraceState {
  /** The traceparent of the request's span; absent if tracing is off. */
  trace?: Traceparent;
}

/**
 * Traces a request from here to its answer, in the trace of the caller's `traceparent` if there is one. The span has
 * the route and the status, never the query, a header or the body.
 */
export function traceRequest(tracing: Tracing | undefined, route: string): Step<TraceState> {
  if (tracing === undefined) return (_, next) => next();
  return async (ctx, next) => {
    const given = ctx.req.headers.traceparent;
    const span = tracing.begin(`${ctx.method} ${route}`, {
      kind: 'server',
      parent: typeof given === 'string' ? given : undefined,
      attributes: {
        'http.request.method': ctx.method,
        'http.route': route,
        'asset_update.request_id': ctx.state.requestId,
      },
    });
    ctx.state.trace = span.traceparent;
    try {
      await next();
      span.end({ 'http.response.status_code': ctx.status });
    } catch (err) {
      const { status, code } = toApiError(err) ?? { status: 500, code: 'server_error' };
      // A caller's mistake is no error of this span (OpenTelemetry's conventions for HTTP servers).
      const its = { 'http.response.status_code': status, 'asset_update.code': code };
      span.end(its, status >= 500 ? code : undefined);
      throw err;
    }
  };
}
