/**
 * Tracing with OpenTelemetry, exported by OTLP over HTTP (protobuf). Loaded only if tracing is on: import types alone. The library
 * reads its own variables: sampler, batches, the exporter's address, headers and certificates, the resource (docs/guides/tracing.md).
 */
import {
  type DiagLogger,
  DiagLogLevel,
  diag,
  isSpanContextValid,
  ROOT_CONTEXT,
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
import { ConfigError } from './config.js';
import type { Logger } from './log.js';
import { withTimeout } from './promises.js';

/** Identifies a span across processes: the W3C header `traceparent`, `00-<trace id>-<span id>-<flags>`. */
export type Traceparent = string;

type SpanAttributes = Record<string, string | number | boolean>;

interface SpanOptions {
  kind?: keyof typeof SpanKind;
  /** What led to the span: it joins the one trace; of several, or if that is invalid, it begins a trace with a link to each. */
  traces?: readonly (Traceparent | undefined)[];
  /** Hold no secret, and of a URL only its scheme and host. */
  attributes?: SpanAttributes;
}

export type Tracing = ReturnType<typeof startTracing>;

/** OpenTelemetry's default limit of links per span. Further events of a group are found by the workflow's id. */
const maxLinks = 128;

/** An unreachable collector must not delay the end of a process. */
const closeWithinMs = 3000;

/**
 * Starts the exporter. Callers pass traceparents on; no context is kept per request.
 * @param service its name gives way to `OTEL_SERVICE_NAME`
 * @throws ConfigError naming what the library would replace by its defaults
 */
export function startTracing({ name, version }: { name: string; version: string }, log: Logger) {
  const wrong = new Set<string>();
  // Its texts quote values.
  const note = (text: string) => void wrong.add(/OTEL_\w+/.exec(text)?.[0] ?? text.replace(/['(].*/s, ''));
  diag.setLogger(diagnostics(note), DiagLogLevel.WARN);
  const resource = defaultResource()
    .merge(resourceFromAttributes({ 'service.name': name, 'service.version': version }))
    .merge(detectResources({ detectors: [envDetector] }));
  const provider = new BasicTracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
  });
  for (const variable of ['OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'])
    if ((process.env[variable] || 'http/protobuf') !== 'http/protobuf')
      wrong.add(`${variable} (there is only http/protobuf)`);
  if (wrong.size > 0) throw new ConfigError(`wrong settings of OpenTelemetry: ${[...wrong].join(', ')}`);
  // Once, and without the library's text, which quotes the collector's answer.
  let isTold = false;
  const tell = () => {
    if (!isTold) log.warn('spans cannot be exported: check OTEL_EXPORTER_OTLP_ENDPOINT and the collector');
    isTold = true;
  };
  diag.setLogger(diagnostics(tell), DiagLogLevel.ERROR);
  const tracer = provider.getTracer(name, version);
  const ignore = () => undefined;
  return {
    begin: (name: string, options: SpanOptions) => begin(tracer, name, options),
    /** Exports the ended spans, if the collector accepts them in time. */
    close: () => withTimeout(provider.shutdown().catch(ignore), closeWithinMs, () => diag.error('late')),
  };
}

function begin(tracer: Tracer, name: string, { kind = 'INTERNAL', traces = [], attributes }: SpanOptions) {
  const led = traces.map(parseTraceparent).filter(isSpanContextValid);
  const [parent] = traces.length === 1 ? led : [];
  const links = parent === undefined ? led.slice(0, maxLinks).map((context) => ({ context })) : [];
  const around = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
  const span = tracer.startSpan(name, { kind: SpanKind[kind], attributes, links }, around);
  const { traceId, spanId, traceFlags } = span.spanContext();
  return {
    traceparent: `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, '0')}`,
    /** @param error a class of errors or a code, never a message: messages quote received text */
    end(more: SpanAttributes = {}, error?: string): void {
      span.setAttributes(more);
      if (error !== undefined) {
        span.setAttribute('error.type', error);
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
      span.end();
    },
  };
}

/** W3C Trace Context, section 3.2.2: later versions have further parts. */
const traceparent = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

/** Parses a traceparent. Any other text gives an invalid context, with which a span begins a trace. */
function parseTraceparent(given: Traceparent = ''): SpanContext {
  const [, traceId = '', spanId = '', flags = ''] = traceparent.exec(given) ?? [];
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
}

function diagnostics(hear: (text: string) => void): DiagLogger {
  const quiet = () => undefined;
  return { error: hear, warn: hear, info: quiet, debug: quiet, verbose: quiet };
}
