/**
 * A process: the clients' endpoint. It answers every POST with 204, or as its `behaviour` says, and records id, asset
 * and times. It leaves every evaluation to others, because it shares the CPU with the service.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type FromReceiver, noArrivals, type ReceiverBehaviour, type ToReceiver } from './jobs.js';
import { monotonicMs } from './processUsage.js';

let behaviour: ReceiverBehaviour = { latencyMs: 0, closesConnections: false, refusesOneInTen: false };
let arrivals = noArrivals();
const refused = new Set<string>();
const inFlight = new Map<string, number>();

interface Post {
  id: string;
  path: string;
  body: string;
  at: number;
}

const server = createServer({ keepAliveTimeout: 120_000 }, (req, res) => {
  const post: Post = {
    id: String(req.headers['webhook-id']),
    path: req.url ?? '',
    body: '',
    at: monotonicMs(),
  };
  begin(post.path);
  req.setEncoding('utf8');
  req.on('data', (chunk: string) => {
    post.body += chunk;
  });
  req.on('end', () => {
    if (behaviour.latencyMs > 0) setTimeout(answer, behaviour.latencyMs, post, res);
    else answer(post, res);
  });
});
server.maxRequestsPerSocket = 0;

server.listen(0, '127.0.0.1', () => {
  tell({ kind: 'ready', port: (server.address() as AddressInfo).port });
});

process.on('message', (message: ToReceiver) => {
  switch (message.kind) {
    case 'behave':
      behaviour = message.behaviour;
      return;
    case 'collect':
      tell({ kind: 'collected', arrivals });
      arrivals = noArrivals();
      return;
  }
});
process.on('disconnect', () => process.exit());

function begin(path: string): void {
  const now = (inFlight.get(path) ?? 0) + 1;
  inFlight.set(path, now);
  if (now > arrivals.mostInFlight) arrivals.mostInFlight = now;
}

function answer(post: Post, res: ServerResponse): void {
  inFlight.set(post.path, (inFlight.get(post.path) ?? 1) - 1);
  const refuses = behaviour.refusesOneInTen && isOneInTen(post.id) && !refused.has(post.id);
  if (refuses) {
    refused.add(post.id);
    arrivals.refused.push(post.id);
  } else {
    arrivals.ids.push(post.id);
    arrivals.at.push(post.at);
    arrivals.assets.push(`${post.path} ${post.body}`);
  }
  res.sendDate = false;
  if (behaviour.closesConnections) res.shouldKeepAlive = false;
  res.writeHead(refuses ? 503 : 204).end();
}

/**
 * Returns whether the first POST of this notification is refused: one in ten, by a hash of the id (FNV-1a). Every tenth
 * arrival would belong to the same few clients, because events go to the clients in turn.
 */
function isOneInTen(id: string): boolean {
  let hash = 0x811c9dc5;
  for (let i = 0; i < id.length; i++) hash = Math.imul(hash ^ id.charCodeAt(i), 0x01000193);
  return (hash >>> 0) % 10 === 0;
}

function tell(message: FromReceiver): void {
  process.send?.(message);
}
