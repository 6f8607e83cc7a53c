/** One run of the command line: the servers' addresses, connections opened when first needed, the output. */
import type { Connection } from '@temporalio/client';
import { durabilityOf, isGiven, isTemporalGiven, keepSegmentsSeconds, readConfig } from '../config.js';
import { createLogger } from '../log.js';
import { messageOf } from '../messageOf.js';
import { closeDb, type Db, openDb } from '../redis/connection/db.js';
import { recordChange } from '../redis/records/audit.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { waitForReads } from './health/redisWrites.js';
import type { Operator } from './operator.js';
import type { GlobalOptions } from './program.js';
import { Refused } from './refused.js';
import { projectDir } from './running/projectDir.js';
import { type RunState, readRunState } from './running/runState.js';
import { isUnnamed, whoOf } from './who.js';

export interface Session extends Operator {
  close(): Promise<void>;
}

/** A person waits: after 5 s the command says that a server does not answer. */
const connectTimeoutMs = 5000;
const redisTimeoutMs = 5000;
const redisThereWithinMs = 3000;

export function openSession(options: GlobalOptions): Session {
  const running = once(runningHere);
  const config = once(() => readConfig(process.env, running()?.environment));
  let connection: Promise<Connection> | undefined;
  let store: Db | undefined;

  const db = once(async () => {
    const given = isGiven('REDIS_URL') && config().REDIS_URL;
    const url = addressOf('REDIS_URL', given, running()?.redisUrl);
    store = openDb({
      url,
      prefix: config().KEY_PREFIX,
      keepSegmentsSeconds: keepSegmentsSeconds(config()),
      durability: durabilityOf(config()),
      log: createLogger('silent', 'operator'),
      commandTimeoutMs: redisTimeoutMs,
    });
    try {
      await untilThere(store);
    } catch {
      throw new Refused(`Redis does not answer at ${withoutPassword(url)}.`);
    }
    return store;
  });

  const temporal = onceDone(async () => {
    // Loaded only when needed, because it takes half of a command's start time.
    const { Client, Connection } = await import('@temporalio/client');
    const given = isTemporalGiven() && config().TEMPORAL_ADDRESS;
    const address = addressOf('TEMPORAL_ADDRESS', given, running()?.temporalAddress);
    connection = Connection.connect({
      ...config().temporalConnection,
      address,
      connectTimeout: connectTimeoutMs,
    });
    try {
      const namespace = config().TEMPORAL_NAMESPACE;
      return new Client({ connection: await connection, namespace });
    } catch {
      connection = undefined;
      throw new Refused(`Temporal does not answer at ${address}.`);
    }
  });

  const change = async <T>(write: (db: Db) => Promise<T>): Promise<T> =>
    await (await db()).durably(write).safe;
  const who = once(() => whoOf(options.as));
  const warn = (line: string) => void process.stderr.write(`${line}\n`);

  return {
    config,
    db,
    change,
    temporal,
    temporalUi: () => config().TEMPORAL_UI_URL ?? running()?.temporalUiUrl,
    api: () => running()?.apiUrl ?? `http://${hostInUrl(config().HOST)}:${config().PORT}`,
    admin: () =>
      isGiven('ADMIN_PORT') || running()
        ? `http://${hostInUrl(config().ADMIN_HOST)}:${config().ADMIN_PORT}`
        : undefined,
    answer(value, forPeople) {
      const shown = options.json ? JSON.stringify(value, null, 2) : forPeople();
      if (shown !== '') process.stdout.write(`${shown}\n`);
    },
    next(value, forPeople) {
      process.stdout.write(`${options.json ? JSON.stringify(value) : forPeople()}\n`);
    },
    isWatched: () => process.stdout.isTTY === true && !options.json,
    tell(line) {
      if (!options.json) process.stdout.write(`${line}\n`);
    },
    warn,
    checkName: () => void who(),
    async record(given) {
      await change((own) => recordChange(own, { who: who(), ...given }));
      if (isUnnamed(who())) warn('Recorded without a name: give yours with --as NAME or OPERATOR_NAME.');
    },
    async wake(clientToken) {
      try {
        if ((await getEndpoint(await db(), clientToken)).owed === 0) return;
        const { createCatchUps } = await import('../temporal/catchUps.js');
        const deps = {
          temporal: await temporal(),
          db: await db(),
          taskQueue: config().TASK_QUEUE,
          log: createLogger('silent', 'operator'),
        };
        await createCatchUps(deps).wakeNow(clientToken);
      } catch (err) {
        warn(`Done, but catch-up could not be woken; the sweep wakes it within 2 minutes. ${messageOf(err)}`);
      }
    },
    async close() {
      if (store !== undefined) closeDb(store);
      await connection?.then((c) => c.close()).catch(() => {});
    },
  };
}

/** Distinguishes a port without a listener from a slow server, for which it waits. */
async function untilThere(store: Db): Promise<void> {
  try {
    await waitForReads(store, redisThereWithinMs);
  } catch (err) {
    if (!store.nodes.primaries().some(({ status }) => status === 'connect' || status === 'ready')) throw err;
    await waitForReads(store, redisTimeoutMs);
  }
}

/** Returns undefined if the environment names both servers, which may be different ones. */
function runningHere(): RunState | undefined {
  if (isGiven('REDIS_URL') && isTemporalGiven()) return undefined;
  return readRunState(projectDir);
}

function addressOf(
  name: 'REDIS_URL' | 'TEMPORAL_ADDRESS',
  given: string | false,
  running: string | undefined,
): string {
  if (given !== false) return given;
  if (running !== undefined) return running;
  throw new Refused(
    `No servers found: ${name} is not set and "npm start" does not run in ${projectDir}.\n` +
      'Run "npm start", or set REDIS_URL and TEMPORAL_ADDRESS.',
  );
}

function hostInUrl(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1';
  return host.includes(':') ? `[${host}]` : host;
}

function withoutPassword(url: string): string {
  return url.replace(/\?.*$/, '').replace(/(\/\/|,)[^@/,]*@/g, '$1');
}

function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** Tries again after a failure, so that a long command finds a server that is back. */
function onceDone<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((err: unknown) => {
      made = undefined;
      throw err;
    });
    return made;
  };
}
