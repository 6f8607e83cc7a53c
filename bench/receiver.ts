/**
 * A process: the clients' endpoint. It answers every POST with 204, or as its `behaviour` says, and records path, body
 * and time. It leaves every evaluation to others, because it shares the CPU with the service.
 */
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { monotonicMs } from './processUsage.js';

export interface ReceiverBehaviour {
  /** Pause before each answer. */
  latencyMs?: number;
  /** Every answer has `Connection: close`. */
  closesConnections?: boolean;
  /** The first POST of one in ten ids is answered 503. */
  refusesOneInTen?: boolean;
  /** Nothing listens. */
  isDown?: boolean;
}

/** `collect` returns the POSTs answered with 204 since the last `collect`: `<path> <body>` and time (`monotonicMs`) of each. */
export type ToReceiver = { kind: 'behave'; behaviour: ReceiverBehaviour } | { kind: 'collect' };
export type FromReceiver =
  | { kind: 'ready'; port: number }
  | { kind: 'collected'; posts: string[]; at: number[] };

let behaviour: ReceiverBehaviour = {};
let arrivals: Pick<Extract<FromReceiver, { kind: 'collected' }>, 'posts' | 'at'> = { posts: [], at: [] };
const refused = new Set<string>();

type Post = { id: string; path: string; body: string; at: number };

const server = createServer({ keepAliveTimeout: 120_000 }, (req, res) => {
  const id = String(req.headers['webhook-id']);
  const post: Post = { id, path: req.url ?? '', body: '', at: monotonicMs() };
  req.setEncoding('utf8');
  req.on('data', (chunk: string) => {
    post.body += chunk;
  });
  req.on('end', () => {
    if (behaviour.latencyMs) setTimeout(answer, behaviour.latencyMs, post, res);
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
  if (message.kind === 'behave') return behave(message.behaviour);
  tell({ kind: 'collected', ...arrivals });
  arrivals = { posts: [], at: [] };
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
    arrivals.at.push(post.at);
    arrivals.posts.push(`${post.path} ${post.body}`);
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
