/**
 * The metrics of Temporal's SDK. Its native part serves them on a separate port of 127.0.0.1; a scrape of this process
 * fetches them from there, so that there is one address to scrape.
 */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import type { TelemetryOptions } from '@temporalio/worker';

const answerWithinMs = 1000;

/** Returns a free port of 127.0.0.1. */
export async function freeSdkPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

/** Names and units as Prometheus has them: seconds, `_total` for counters. */
export function sdkTelemetry(port: number): TelemetryOptions {
  const bindAddress = `127.0.0.1:${port}`;
  return {
    metrics: {
      prometheus: {
        bindAddress,
        countersTotalSuffix: true,
        unitSuffix: true,
        useSecondsForDurations: true,
      },
    },
  };
}

/** Returns the SDK's metrics as text; empty if there are none in time, so that the others are still shown. */
export async function readSdkMetrics(port: number): Promise<string> {
  try {
    const signal = AbortSignal.timeout(answerWithinMs);
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { signal });
    return answer.ok ? await answer.text() : '';
  } catch {
    return '';
  }
}
