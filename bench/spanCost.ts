/**
 * Measures the CPU time of the spans of an event with their export to a collector, which is a separate process:
 *
 *     npx tsx bench/spanCost.ts
 *     OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=0.01 npx tsx bench/spanCost.ts
 *
 * It counts CPU time of this process only, which other work of the machine changes little.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createLogger } from '../src/log.js';
import type { Tracing } from '../src/tracing.js';

const warmUp = 3000;
const measured = 6000;
/** 500 events a second, few enough for the exporter's queue. */
const group = { events: 20, everyMs: 40 };
/** Longer than the exporter waits for a batch to fill. */
const exportedMs = 6000;

if (process.send !== undefined) collect();
else await measure();

function collect(): void {
  const server = createServer((req, res) => {
    req.resume();
    req.on('end', () => res.writeHead(200, { 'content-type': 'application/x-protobuf' }).end());
  });
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
}

async function measure(): Promise<void> {
  const collector = fork(import.meta.filename);
  const [port] = (await once(collector, 'message')) as [number];
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = `http://127.0.0.1:${port}`;
  const { startTracing } = await import('../src/openTelemetry.js');
  const log = createLogger('warn', 'bench');
  const tracing = startTracing({ name: 'bench', version: '0', tellsReceivers: false, log });
  await cpuOf((i) => traceEvent(tracing, i), warmUp);
  const without = await cpuOf(() => undefined, measured);
  const withSpans = await cpuOf((i) => traceEvent(tracing, i), measured);
  const ms = (withSpans - without) / measured;
  console.log(`${ms.toFixed(3)} ms of CPU for the three spans of an event`);
  await tracing.close();
  collector.kill();
}

/** Returns the CPU time, ms, of a number of events and of their export. */
async function cpuOf(each: (i: number) => void, events: number): Promise<number> {
  const before = process.cpuUsage();
  for (let i = 0; i < events; i++) {
    each(i);
    if (i % group.events === group.events - 1) await sleep(group.everyMs);
  }
  await sleep(exportedMs);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

/** Makes the spans of a single event, with the attributes that the service gives them. */
function traceEvent(tracing: Tracing, i: number): void {
  const ids = { 'asset_update.client_token': 'SITE0042', 'asset_update.notification_id': `msg_${i}` };
  const method = { 'http.request.method': 'POST' };
  const request = tracing.begin('POST /enrichments', {
    kind: 'server',
    attributes: { ...method, 'http.route': '/enrichments', 'asset_update.request_id': `request-${i}` },
  });
  const accept = tracing.begin('accept', {
    parent: request.traceparent,
    attributes: { ...ids, 'asset_update.platform_id': `video-${i}`, 'asset_update.event_id': `an-${i}` },
  });
  accept.end({ 'asset_update.result': 'queued' });
  request.end({ 'http.response.status_code': 202 });
  const url = 'https://hooks.example.com/asset-updates';
  const attempt = tracing.begin('POST', {
    kind: 'client',
    parent: accept.traceparent,
    attributes: { ...method, ...ids, 'url.full': url, 'server.address': new URL(url).hostname },
  });
  attempt.end({ 'http.response.status_code': 200 });
}
