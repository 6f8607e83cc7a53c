/**
 * Tracing with OpenTelemetry, exported by OTLP over HTTP (protobuf). Loaded only if tracing is on. The library reads its
 * own variables: sampler, batches, the exporter's address, headers and certificates, the resource (docs/guides/tracing.md).
 */
import {
  type DiagLogger,
  DiagLogLevel,
  diag,
  isSpanContextValid,
  type Link,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { Logger } from './log.js';
import type { SpanAttributes, SpanOptions, TracedSpan, Traceparent, Tracing } from './tracing.js';

interface TracingOptions {
  /** Of the service; `OTEL_SERVICE_NAME` takes precedence. */
  name: string;
  version: string;
  log: Logger;
}

const kinds = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  internal: SpanKind.INTERNAL,
};
/** An unreachable collector must not delay the end of a process. */
const closeWithinMs = 3000;

/** Starts the exporter. Callers pass traceparents on; no context is kept per request. */
export function startTracing({ name, version, log }: TracingOptions): Tracing {
  diag.setLogger(diagnostics(log), DiagLogLevel.WARN);
  const resource = defaultResource()
    .merge(resourceFromAttributes({ 'service.name': name, 'service.version': version }))
    .merge(detectResources({ detectors: [envDetector] }));
  const provider = new BasicTracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  const tracer = provider.getTracer(name, version);
  return {
    begin: (name, options) => begin(tracer, name, options),
    async close() {
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, closeWithinMs);
      });
      await Promise.race([provider.shutdown().catch(() => undefined), late]);
      clearTimeout(timer);
    },
  };
}

function begin(
  tracer: Tracer,
  name: string,
  { kind = 'internal', parent, links = [], attributes = {} }: SpanOptions,
): TracedSpan {
  const above = contextOf(parent);
  const context = above === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, above);
  const linked = links.flatMap((one): Link[] => {
    const its = contextOf(one);
    return its === undefined ? [] : [{ context: its }];
  });
  const span = tracer.startSpan(name, { kind: kinds[kind], attributes, links: linked }, context);
  return {
    traceparent: traceparentOf(span),
    end(more: SpanAttributes = {}, error?: string) {
      span.setAttributes(more);
      if (error !== undefined) {
        span.setAttribute('error.type', error);
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
      span.end();
    },
  };
}

function traceparentOf(span: Span): Traceparent {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`;
}

/** W3C Trace Context, section 3.2.2: later versions have further parts. */
const traceparent = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

function contextOf(given: Traceparent | undefined): SpanContext | undefined {
  const [, traceId, spanId, flags] = traceparent.exec(given ?? '') ?? [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return undefined;
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return isSpanContextValid(context) ? context : undefined;
}

/** Logs once that spans cannot be exported, without the library's text, which quotes the collector's answer. */
function diagnostics(log: Logger): DiagLogger {
  let isTold = false;
  const tell = (): void => {
    if (!isTold) log.warn('spans cannot be exported: check OTEL_EXPORTER_OTLP_ENDPOINT and the collector');
    isTold = true;
  };
  const quiet = (): void => undefined;
  return { error: tell, warn: quiet, info: quiet, debug: quiet, verbose: quiet };
}
