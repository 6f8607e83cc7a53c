/** The API on a free port, with connections, keys and an account of its own. */
import { randomUUID } from 'node:crypto';
import { Client, Connection, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
import { createApi } from '../../src/api/app.js';
import type { ApiDeps } from '../../src/api/deps.js';
import { createReadiness, lookEveryMs } from '../../src/api/readiness.js';
import { listen } from '../../src/api/server.js';
import { startDelivering } from '../../src/compose.js';
import { durabilityOf, readConfig } from '../../src/config.js';
import { createLogger, type Logger } from '../../src/log.js';
import { createMetrics } from '../../src/metrics.js';
import { createSender } from '../../src/outgoing/post.js';
import { openDb, waitForRedis } from '../../src/redis/connection/db.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { createClient } from '../../src/redis/records/clients.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { askServer } from '../../src/temporal/connection.js';
import { redisPatience, servers, uniquePrefix } from '../servers.js';
import { watchAnswers } from './reference/watchAnswers.js';

export interface RunningApi {
  url: string;
  prefix: string;
  deps: ApiDeps;
  close(): Promise<void>;
}

export async function startApi(
  options: {
    env?: Record<string, string>;
    redisUrl?: string;
    temporalAddress?: string;
    prefix?: string;
    lookup?: ApiDeps['lookup'];
    log?: Logger;
  } = {},
): Promise<RunningApi> {
  const prefix = options.prefix ?? uniquePrefix();
  const config = readConfig({
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: '127.0.0.0/8',
    TASK_QUEUE: prefix,
    LOG_LEVEL: 'silent',
    ...options.env,
  });
  const log = options.log ?? createLogger(config.LOG_LEVEL, 'api');
  const redisUrl = options.redisUrl ?? servers().redisUrl;
  const durability = durabilityOf(config);
  const db = openDb({ url: redisUrl, prefix, log, durability, ...redisPatience(redisUrl) });
  await waitForRedis(db, 5000);
  const connection = await Connection.connect({
    address: options.temporalAddress ?? servers().temporalAddress,
    // A retry that fires after closing throws with nobody to catch it.
    interceptors: [makeGrpcRetryInterceptor(defaultGrpcRetryOptions({ maxAttempts: 1 }))],
  });
  const temporal = new Client({ connection });
  const targetPolicy = {
    allowHttp: config.ALLOW_HTTP_TARGETS,
    allowedCidrs: config.ALLOWED_TARGET_CIDRS,
    ownPorts: config.OWN_PORTS,
  };
  const sender = createSender({ policy: targetPolicy, timeoutMs: 2000 });
  const metrics = createMetrics();
  const secretBox = createSecretBox(config.SECRETS_KEY);
  const delivering = await startDelivering({
    role: 'api',
    config,
    db,
    temporal,
    sender,
    secretBox,
    log,
    metrics,
  });
  const { accepting, catchUps, notices } = delivering;
  const closing = new AbortController();
  const deps: ApiDeps = {
    config,
    db,
    log,
    temporal,
    accepting,
    catchUps,
    notices,
    sender,
    secretBox,
    metrics,
    targetPolicy,
    readiness: createReadiness({
      redis: () => db.nodes.ping(),
      temporal: () => askServer(connection, lookEveryMs),
      ending: () => false,
    }),
    closing: closing.signal,
    lookup: options.lookup,
  };
  const server = await listen({ HOST: '127.0.0.1', PORT: 0 }, createApi(deps));
  const url = `http://127.0.0.1:${server.port}`;
  watchAnswers(url);
  return {
    url,
    prefix,
    deps,
    async close() {
      closing.abort();
      await server.close();
      await delivering.endStarts();
      await delivering.close();
      await sender.close();
      db.redis.disconnect();
      await connection.close();
    },
  };
}

/** An account with one client. */
export async function newCustomer({ deps }: RunningApi, scopes: string[] = ['push_notifications']) {
  const account = await createAccount(deps.db, { name: 'Example Media', scopes });
  const client = await createClient(deps.db, {
    accountId: account.account_id,
    name: 'Example Site',
    clientToken: `SITE-${randomUUID().slice(0, 8)}`,
  });
  return { ...account, client_token: client.clientToken };
}

/** The four fields of a correct token call. */
export function tokenFields(account: { client_id: string; client_secret: string; scopes: string[] }) {
  return {
    grant_type: 'none',
    client_id: account.client_id,
    client_secret: account.client_secret,
    scope: account.scopes.join(' '),
  };
}

export async function newToken(
  api: RunningApi,
  account: { client_id: string; client_secret: string; scopes: string[] },
): Promise<string> {
  const answer = await fetch(`${api.url}/oauth/access_token`, {
    method: 'POST',
    body: new URLSearchParams(tokenFields(account)),
  });
  const { access_token: token } = (await answer.json()) as { access_token: string };
  return token;
}
