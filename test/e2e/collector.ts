/** What an OTLP/HTTP exporter sends to: takes `POST /v1/traces` as a collector does, and keeps the spans. */
import { createServer } from 'node:http';
import { gunzipSync } from 'node:zlib';
import protobuf from 'protobufjs';
import { portOf } from '../receiver.js';

export interface Span {
  name: string;
  traceId: string;
  spanId: string;
  parentSpanId: string;
  /** `SPAN_KIND_SERVER` ... */
  kind: string;
  attributes: Record<string, unknown>;
  isError: boolean;
  resource: Record<string, unknown>;
}

/** The parts that are looked at of opentelemetry/proto/{collector/trace,trace,resource,common}/v1, by their field numbers. */
const definitions = `
syntax = "proto3";
message ExportTraceServiceRequest { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeSpans { repeated Span spans = 2; }
message Span {
  bytes trace_id = 1;
  bytes span_id = 2;
  bytes parent_span_id = 4;
  string name = 5;
  SpanKind kind = 6;
  repeated KeyValue attributes = 9;
  Status status = 15;
}
enum SpanKind {
  SPAN_KIND_UNSPECIFIED = 0;
  SPAN_KIND_INTERNAL = 1;
  SPAN_KIND_SERVER = 2;
  SPAN_KIND_CLIENT = 3;
  SPAN_KIND_PRODUCER = 4;
  SPAN_KIND_CONSUMER = 5;
}
message Status { string message = 2; StatusCode code = 3; }
enum StatusCode { STATUS_CODE_UNSET = 0; STATUS_CODE_OK = 1; STATUS_CODE_ERROR = 2; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue {
  oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; }
}
`;
const request = protobuf.parse(definitions).root.lookupType('ExportTraceServiceRequest');

export type Collector = Awaited<ReturnType<typeof startCollector>>;

export async function startCollector() {
  const collector = {
    spans: [] as Span[],
    bodies: [] as Buffer[],
    headers: {} as Record<string, unknown>,
  };
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on('data', (chunk: Buffer) => chunks.push(chunk));
    req.on('end', () => {
      const sent = Buffer.concat(chunks);
      const body = req.headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent;
      if (req.url !== '/v1/traces' || req.headers['content-type'] !== 'application/x-protobuf') {
        res.writeHead(404).end();
        return;
      }
      collector.headers = req.headers;
      collector.bodies.push(body);
      collector.spans.push(...spansOf(body));
      // An empty ExportTraceServiceResponse: all were taken.
      res.writeHead(200, { 'content-type': 'application/x-protobuf' }).end();
    });
  });
  return Object.assign(collector, {
    url: `http://127.0.0.1:${await portOf(server)}`,
    async close(): Promise<void> {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

interface KeyValue {
  key: string;
  value: Record<string, unknown>;
}
/** As protobufjs reads it. */
type Decoded = Pick<Span, 'name' | 'kind'> & {
  [Id in 'traceId' | 'spanId' | 'parentSpanId']: Uint8Array;
} & { attributes: KeyValue[]; status: { code: string } | null };
interface Sent {
  resourceSpans: { resource: { attributes: KeyValue[] }; scopeSpans: { spans: Decoded[] }[] }[];
}

function spansOf(body: Buffer): Span[] {
  const options = { enums: String, longs: Number, defaults: true, arrays: true };
  const { resourceSpans } = request.toObject(request.decode(body), options) as unknown as Sent;
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans
      .flatMap(({ spans }) => spans)
      .map((span) => ({
        ...span,
        traceId: hex(span.traceId),
        spanId: hex(span.spanId),
        parentSpanId: hex(span.parentSpanId),
        attributes: recordOf(span.attributes),
        isError: span.status?.code === 'STATUS_CODE_ERROR',
        resource: recordOf(resource.attributes),
      })),
  );
}

function recordOf(attributes: KeyValue[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]));
}
