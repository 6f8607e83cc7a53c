/**
 * A process: the clients' endpoint. It answers every POST with 204, or as its `behaviour` says, and records id, asset
 * and times. It leaves every evaluation to others, because it shares the CPU with the service.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type FromReceiver,
  noNotifications,
  type ReceiverBehaviour,
  type ToReceiver,
  usualBehaviour,
} from './jobs.js';
import { monotonicMs } from './processUsage.js';

let behaviour = usualBehaviour;
let arrivals = noNotifications();
const refused = new Set<string>();

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

let port = 0;
server.listen(0, '127.0.0.1', () => {
  port = (server.address() as AddressInfo).port;
  tell({ kind: 'ready', port });
});

process.on('message', (message: ToReceiver) => {
  if (message.kind === 'behave') {
    behave(message.behaviour);
    return;
  }
  tell({ kind: 'collected', arrivals });
  arrivals = noNotifications();
});
process.on('disconnect', () => process.exit());

function behave(next: ReceiverBehaviour): void {
  if (next.isDown && !behaviour.isDown) {
    server.close();
    server.closeAllConnections();
  }
  if (!next.isDown && behaviour.isDown) server.listen(port, '127.0.0.1');
  behaviour = next;
}

function answer(post: Post, res: ServerResponse): void {
  const refuses = behaviour.refusesOneInTen && isOneInTen(post.id) && !refused.has(post.id);
  if (refuses) {
    refused.add(post.id);
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
