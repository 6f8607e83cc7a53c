/**
 * A process: the clients' endpoint. It answers every POST with 204 and remembers id, asset and time of arrival;
 * nothing is looked at before it is asked for, as its CPU time is taken from the service's.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Arrivals, FromReceiver, ToReceiver } from './jobs.js';
import { monotonicMs } from './monotonicMs.js';

let arrivals: Arrivals = { ids: [], at: [], assets: [] };
let latencyMs = 0;

const server = createServer({ keepAliveTimeout: 120_000 }, (req, res) => {
  const at = monotonicMs();
  let body = '';
  req.setEncoding('utf8');
  req.on('data', (chunk: string) => {
    body += chunk;
  });
  req.on('end', () => {
    arrivals.ids.push(String(req.headers['webhook-id']));
    arrivals.at.push(at);
    arrivals.assets.push(`${req.url} ${body}`);
    res.sendDate = false;
    if (latencyMs > 0) setTimeout(() => res.writeHead(204).end(), latencyMs);
    else res.writeHead(204).end();
  });
});
server.maxRequestsPerSocket = 0;

server.listen(0, '127.0.0.1', () => {
  tell({ kind: 'ready', port: (server.address() as AddressInfo).port });
});

process.on('message', (message: ToReceiver) => {
  switch (message.kind) {
    case 'latency':
      latencyMs = message.latencyMs;
      return;
    case 'collect':
      tell({ kind: 'collected', arrivals });
      arrivals = { ids: [], at: [], assets: [] };
      return;
  }
});
process.on('disconnect', () => process.exit());

function tell(message: FromReceiver): void {
  process.send?.(message);
}
