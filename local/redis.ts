import { existsSync, readFileSync, statSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { redisBinary } from './binaries.js';
import { type Server, type ServerOptions, startChild, toFlags, waitUntilReady } from './child.js';
import { freePort } from './ports.js';

interface RedisOptions extends ServerOptions {
  /** `redis` by default. */
  name?: string;
  env?: NodeJS.ProcessEnv;
  /** Called if the end of the append-only file was torn: the last write was not yet answered. */
  say?: (line: string) => void;
}

export interface RedisServer extends Server {
  url: string;
}

/** Starts a Redis (or Valkey) on 127.0.0.1 that loses no answered write; resolves once it answers a PING. */
export async function startRedis(options: RedisOptions): Promise<RedisServer> {
  const binary = options.binary ?? (await redisBinary());
  const port = options.port ?? (await freePort());
  await mkdir(options.dir, { recursive: true });
  const logFile = options.logFile ?? join(options.dir, 'redis.log');
  const logged = existsSync(logFile) ? statSync(logFile).size : 0;
  const child = await startChild({
    name: options.name ?? 'redis',
    command: binary,
    args: [...toFlags({ port, dir: options.dir, ...settings }), ...(options.args ?? [])],
    env: { GLIBC_TUNABLES: mallocSettings, ...process.env, ...options.env },
    logFile,
    onStart: options.onStart,
  });
  await waitUntilReady(child, () => answersPing(port), 30_000);
  const repaired = readFileSync(logFile, 'utf8')
    .slice(logged)
    .match(/Truncating the AOF .*/)?.[0];
  if (repaired) options.say?.(`redis: the torn end of its append-only file was truncated (${repaired})`);
  return { url: `redis://127.0.0.1:${port}`, port, pid: child.pid, binary, child, stop: () => child.stop() };
}

/**
 * The bundled server was built with glibc's malloc instead of jemalloc. A larger cache for the small pieces that
 * scripts allocate and free saves a tenth of its CPU time (docs/benchmarks/decisions.md), for up to 65 MB.
 */
const mallocSettings = 'glibc.malloc.tcache_count=2000';

/**
 * `appendfsync always`: an answered write is on disk. The listpack limits keep the packed sets of known segments in
 * their compact form. `LATENCY LATEST` names what took longer than half a second, such as a flush of the disk.
 */
const settings = {
  bind: '127.0.0.1',
  daemonize: 'no',
  appendonly: 'yes',
  appendfsync: 'always',
  'aof-load-truncated': 'yes',
  save: '',
  'hash-max-listpack-entries': 512,
  'hash-max-listpack-value': 256,
  'maxmemory-policy': 'noeviction',
  loglevel: 'notice',
  'latency-monitor-threshold': 500,
};

/** Returns whether a Redis on 127.0.0.1 answers; much data loads for minutes. */
function answersPing(port: number): Promise<boolean | 'loading'> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    socket.setTimeout(1000, () => socket.destroy());
    socket.once('connect', () => socket.write('PING\r\n'));
    socket.once('data', (data) => {
      const answer = data.toString();
      resolve(answer.startsWith('-LOADING') ? 'loading' : answer.startsWith('+PONG'));
      socket.destroy();
    });
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}
