/** One run of the command line: the servers' addresses, connections opened when first needed, the output. */
import { hostname, userInfo } from 'node:os';
import type { Connection } from '@temporalio/client';
import { durabilityOf, isGiven, isTemporalGiven, keepSegmentsSeconds, readConfig } from '../config.js';
import { createLogger } from '../log.js';
import { messageOf } from '../messageOf.js';
import { closeDb, type Db, openDb } from '../redis/connection/db.js';
import { recordChange } from '../redis/records/audit.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { type Operator, Refused } from './operator.js';
import { projectDir } from './running/projectDir.js';
import { type RunningHere, readRunState } from './running/runState.js';
import { waitForReads } from './servers.js';

export interface Session extends Operator {
  close(): Promise<void>;
}

/** A person waits: after 5 s the command says that a server does not answer. */
const connectTimeoutMs = 5000;
const redisTimeoutMs = 5000;

export function openSession(options: { json?: boolean; as?: string }): Session {
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
      await waitForReads(store, redisTimeoutMs);
    } catch {
      throw new Refused(`Redis does not answer at ${withoutPassword(url)}.`);
    }
    return store;
  });

  const temporal = once(async () => {
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
    answer(value, forPeople) {
      const shown = options.json ? JSON.stringify(value, null, 2) : forPeople();
      if (shown !== '') process.stdout.write(`${shown}\n`);
    },
    tell(line) {
      if (!options.json) process.stdout.write(`${line}\n`);
    },
    warn,
    checkName: () => void who(),
    async record(what, target, before, after) {
      await change((own) => recordChange(own, { who: who(), what, target, before, after }));
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
        warn(
          `Done, but catch-up could not be woken; the sweep wakes it within 30 seconds. ${messageOf(err)}`,
        );
      }
    },
    async close() {
      if (store !== undefined) closeDb(store);
      await connection?.then((c) => c.close()).catch(() => {});
    },
  };
}

/** Returns undefined if the environment names both servers, which may be different ones. */
function runningHere(): RunningHere | undefined {
  if (isGiven('REDIS_URL') && isTemporalGiven()) return undefined;
  return readRunState();
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

const unnamed = 'unnamed';

/** `NAME (login)` if a name is given by `--as` or OPERATOR_NAME, else the login, which in a container names no person. */
function whoOf(as: string | undefined): string {
  // SUDO_USER is the login of the person who called `sudo`. The image sets IN_CONTAINER: its login names no person.
  const { OPERATOR_NAME, SUDO_USER, IN_CONTAINER } = process.env;
  const name = nameOf(as ?? (OPERATOR_NAME || undefined));
  if (IN_CONTAINER === 'true') return `${name ?? unnamed} (container ${hostname()})`;
  const login = SUDO_USER || ownLogin();
  return name === undefined ? login : `${name} (${login})`;
}

const isUnnamed = (who: string): boolean => who.startsWith(`${unnamed} (`);

function nameOf(given: string | undefined): string | undefined {
  if (given === undefined) return undefined;
  const name = given.trim();
  if (!/^[^\p{Cc}\p{Cf}]{1,64}$/u.test(name) || name === unnamed) {
    throw new Refused(
      'A name (--as, OPERATOR_NAME) has 1 to 64 characters, none of them a control character.',
    );
  }
  return name;
}

/** A user id without an entry in the system's list, as used by orchestrators, has no name. */
function ownLogin(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
