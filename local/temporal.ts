import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { temporalBinary } from './binaries.js';
import { type Server, type ServerOptions, startChild, toFlags, waitUntilReady } from './child.js';
import { freePort } from './ports.js';

interface TemporalOptions extends ServerOptions {
  /** Without this port there is no UI. */
  uiPort?: number;
  namespace?: string;
}

export interface TemporalServer extends Server {
  address: string;
}

/** Starts Temporal's development server on 127.0.0.1, with its store in a file; resolves once the namespace can be used. */
export async function startTemporal(options: TemporalOptions): Promise<TemporalServer> {
  const binary = options.binary ?? (await temporalBinary());
  const port = options.port ?? (await freePort());
  const namespace = options.namespace ?? 'default';
  await mkdir(options.dir, { recursive: true });
  const child = await startChild({
    name: 'temporal',
    command: binary,
    args: [
      'server',
      'start-dev',
      ...toFlags({ ip: '127.0.0.1', port, namespace }),
      ...(options.uiPort === undefined ? ['--headless'] : toFlags({ 'ui-port': options.uiPort })),
      ...toFlags({ 'log-level': 'warn', 'db-filename': join(options.dir, 'temporal.db') }),
      ...Object.entries(sqlitePragmas).flatMap(([k, v]) => ['--sqlite-pragma', `${k}=${v}`]),
      ...Object.entries(searchAttributes).flatMap(([k, v]) => ['--search-attribute', `${k}=${v}`]),
      ...limits.flatMap((name) => ['--dynamic-config-value', `${name}=${perSecond}`]),
      ...Object.entries(sizes).flatMap(([k, v]) => ['--dynamic-config-value', `${k}=${v}`]),
      ...Object.entries(visibility).flatMap(([k, v]) => ['--dynamic-config-value', `${k}=${v}`]),
      ...Object.entries(pings).flatMap(([k, v]) => ['--dynamic-config-value', `${k}="${v}"`]),
      ...(options.args ?? []),
    ],
    logFile: options.logFile ?? join(options.dir, 'temporal.log'),
    onStart: options.onStart,
    // Its exporter would send the server's own spans where those of the service go.
    env: Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('OTEL_'))),
  });
  const address = `127.0.0.1:${port}`;
  await waitUntilReady(child, () => hasNamespace(address, namespace), 60_000);
  return { address, port, pid: child.pid, binary, child, stop: () => child.stop() };
}

/** FULL: an answered workflow start survives a power failure. A larger cache and rarer checkpoints save a tenth of the server's CPU. */
const sqlitePragmas = {
  journal_mode: 'WAL',
  synchronous: 'FULL',
  wal_autocheckpoint: 16_000,
  cache_size: -65_536,
};

/** Production registers the same search attributes (deploy/temporal/namespace.sh). */
const searchAttributes = {
  ClientToken: 'KeywordList',
  PlatformId: 'KeywordList',
  EventId: 'KeywordList',
  NotificationState: 'Keyword',
  HttpStatus: 'Int',
};

/** The server's default limits are meant for many tenants; the first one applies at 2,400 calls a second. */
const perSecond = 100_000;
const limits = [
  'frontend.rps',
  'frontend.namespaceRPS',
  'frontend.namespaceRPS.visibility',
  'frontend.persistenceMaxQPS',
  'history.rps',
  'history.persistenceMaxQPS',
  'matching.rps',
  'matching.persistenceMaxQPS',
  'system.visibilityPersistenceMaxReadQPS',
  'system.visibilityPersistenceMaxWriteQPS',
];

/** The ids of all events of a group fit into its search attributes. */
export const searchAttributeBytes = 1_048_576;
const sizes = {
  'frontend.searchAttributesSizeOfValueLimit': searchAttributeBytes,
  'frontend.searchAttributesTotalSizeLimit': 2 * searchAttributeBytes,
};

/**
 * Lists lag by half a second: a workflow that has closed by then is written once instead of twice. The search attributes are those
 * of the start.
 */
const visibility = {
  'history.visibilityProcessorMaxPollRPS': 2,
  'history.visibilityTaskBatchSize': 1000,
  'system.forceSearchAttributesCacheRefreshOnRead': false,
};

/** Checks a silent worker sooner than after a minute, because until then the server still gives it tasks. */
const pings = { 'frontend.keepAliveTime': '2s', 'frontend.keepAliveTimeout': '2s' };

/** Loaded while the server starts: the client takes half a second to load. */
async function hasNamespace(address: string, namespace: string): Promise<boolean> {
  const { Connection } = await import('@temporalio/client');
  const connection = await Connection.connect({ address, connectTimeout: 200 }).catch(() => undefined);
  if (!connection) return false;
  try {
    await connection.workflowService.describeNamespace({ namespace });
    return true;
  } catch {
    return false;
  } finally {
    await connection.close();
  }
}
