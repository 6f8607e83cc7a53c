/** The tracing interface of the service. `openTelemetry.ts` implements it; if tracing is off, there is no `Tracing` and nothing is loaded. */
import type { SpanKind } from '@opentelemetry/api';

/** Identifies a span across processes: the W3C header `traceparent`, `00-<trace id>-<span id>-<flags>`. */
export type Traceparent = string;

type SpanAttributes = Record<string, string | number | boolean>;

export interface SpanOptions {
  kind?: keyof typeof SpanKind;
  /** The span joins this trace. Without it, or if it is invalid, the span begins a trace. */
  parent?: Traceparent;
  /** Spans of other traces that led to this one. */
  links?: readonly Traceparent[];
  /** Hold no secret, and of a URL only its scheme and host. */
  attributes?: SpanAttributes;
}

export interface TracedSpan {
  readonly traceparent: Traceparent;
  /** @param error a class of errors or a code, never a message: messages quote received text */
  end(attributes?: SpanAttributes, error?: string): void;
}

export interface Tracing {
  begin(name: string, options: SpanOptions): TracedSpan;
  /** Exports the ended spans, if the collector accepts them in time. Never rejects. */
  close(): Promise<void>;
}

/** OpenTelemetry's default limit of links per span. Further events of a group are found by the workflow's id. */
const maxLinks = 128;

/** Places the span of work for several events: in the trace of a single event, or in a new trace with links to each event's. */
export function spanFor(traces: readonly (Traceparent | undefined)[]): Pick<SpanOptions, 'parent' | 'links'> {
  const known = traces.filter((trace) => trace !== undefined);
  return traces.length === 1 ? { parent: known[0] } : { links: known.slice(0, maxLinks) };
}
