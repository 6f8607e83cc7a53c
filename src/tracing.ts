/** What the service asks of tracing. `openTelemetry.ts` does it; where tracing is off there is no `Tracing`, and nothing is loaded. */

/** Names a span over processes: the W3C header `traceparent`, `00-<trace id>-<span id>-<flags>`. */
export type Traceparent = string;

export type SpanAttributes = Record<string, string | number | boolean>;

export interface SpanOptions {
  kind?: 'server' | 'client' | 'producer' | 'internal';
  /** The span goes on with its trace; without one it begins a trace. What is no traceparent counts as none. */
  parent?: Traceparent | undefined;
  /** Spans of other traces that led to this one. */
  links?: readonly Traceparent[];
  /** Never a secret, never the query of a URL. */
  attributes?: SpanAttributes;
}

export interface TracedSpan {
  readonly traceparent: Traceparent;
  /** @param error a class of errors or a code, never a message: messages quote what others sent */
  end(attributes?: SpanAttributes, error?: string): void;
}

export interface Tracing {
  begin(name: string, options: SpanOptions): TracedSpan;
  /** Whether receivers are told the trace of an attempt. */
  readonly tellsReceivers: boolean;
  /** Exports what has ended, as far as that goes. Never rejects. */
  close(): Promise<void>;
}

/** A span has 128 links by default: a group's further events are found by its workflow's id. */
const maxLinks = 128;

/** Returns how the span of work for several events stands: in the trace of the only one, or in one of its own with links. */
export function spanFor(traces: readonly (Traceparent | undefined)[]): Pick<SpanOptions, 'parent' | 'links'> {
  const known = traces.filter((trace) => trace !== undefined);
  return traces.length === 1 ? { parent: known[0] } : { links: known.slice(0, maxLinks) };
}
