/** One run of the command line on the stores: the servers, opened when first needed, and the operator's name. */
import { hostname, userInfo } from 'node:os';
import type { Client as TemporalClient } from '@temporalio/client';
import { withoutPassword } from '../addresses.js';
import { type Config, isRedisGiven, isTemporalGiven, readConfig, redisOptions } from '../config.js';
import type { Sender } from '../outgoing/post.js';
import { closeDb, type Db, openDb, waitForRedis } from '../redis/connection/db.js';
import { layoutFault } from '../redis/connection/mark.js';
import { explainRefusals, ignore } from '../redis/connection/unavailable.js';
import { personName } from './input.js';
import { projectDir, readRunState } from './npmStart.js';
import { createOperator, log, Refused } from './operation.js';

/** A person waits: after 5 s the command says that a server does not answer. */
const patienceMs = 5000;

/** An operator on the stores may do everything. @throws Refused if the given operator's name is not valid */
export function openSession({ as, reason }: { as?: string; reason?: string }) {
  const who = nameOperator(as);
  let read: Config | undefined;
  let store: Promise<Db> | undefined;
  let client: Promise<TemporalClient> | undefined;
  let sending: Promise<Sender> | undefined;

  // If the environment names both servers, `npm start` may run others.
  const isComplete = isRedisGiven() && isTemporalGiven();
  const found = isComplete ? undefined : readRunState()?.environment;
  const config = () => (read ??= readConfig(process.env, found));
  const own = {
    role: 'admin' as const,
    who,
    config,
    db: () => (store ??= connectRedis(config(), isRedisGiven() || found !== undefined)),
    temporal: () => (client ??= connectTemporal(config(), isTemporalGiven() || found !== undefined)),
    sender: () => (sending ??= import('../outgoing/post.js').then((post) => post.senderOf(config()))),
    /** Prints to stderr, even with `--json`. */
    warn: (line: string) => void process.stderr.write(`${line}\n`),
  };
  return {
    operator: createOperator(own, reason),
    async close() {
      await Promise.allSettled([
        sending?.then((one) => one.close()),
        store?.then(closeDb),
        client?.then(({ connection }) => connection.close()),
      ]);
    },
  };
}

async function connectRedis(config: Config, isKnown: boolean): Promise<Db> {
  if (!isKnown) throw noServers('REDIS_URL');
  // ioredis warns there of a password that the server asked nobody for.
  console.warn = ignore;
  const db = openDb({ ...redisOptions(config), log, commandTimeoutMs: patienceMs });
  try {
    await waitForRedis(db, patienceMs);
  } catch (err) {
    closeDb(db);
    const [why] = explainRefusals([db.health.behind(err)]);
    const message = `${why?.says} REDIS_URL leads to ${withoutPassword(config.REDIS_URL)}.`;
    throw new Refused(message, 'temporarily_unavailable', why?.todo);
  }
  const fault = await layoutFault(db);
  if (fault === undefined) return db;
  closeDb(db);
  throw new Refused(fault);
}

async function connectTemporal(config: Config, isKnown: boolean): Promise<TemporalClient> {
  if (!isKnown) throw noServers('TEMPORAL_ADDRESS');
  // Loaded only when needed, because it takes half of a command's start time.
  const { Client, Connection } = await import('@temporalio/client');
  const { explainTemporal, withoutRetries } = await import('../temporal/refusal.js');
  const { temporalConnection: given, TEMPORAL_ADDRESS: address } = config;
  try {
    const own = { ...given, connectTimeout: patienceMs, interceptors: withoutRetries() };
    const connection = await Connection.connect(own);
    return new Client({ connection, namespace: config.TEMPORAL_NAMESPACE });
  } catch (err) {
    const { says, todo } = await explainTemporal(err, given);
    throw new Refused(`${says} TEMPORAL_ADDRESS is ${address}.`, 'temporarily_unavailable', todo);
  }
}

const noServers = (unset: string) =>
  new Refused(
    `No servers found: ${unset} is not set and "npm start" does not run in ${projectDir}.\n` +
      'Run "npm start", or set REDIS_URL and TEMPORAL_ADDRESS.',
  );

/** `NAME (login)` if a name is given by `--as` or OPERATOR_NAME, else the login, which in a container names no person. */
function nameOperator(as: string | undefined): string {
  // SUDO_USER is the login of the person who called `sudo`. The image sets IN_CONTAINER: its login names no person.
  const { OPERATOR_NAME, SUDO_USER, IN_CONTAINER } = process.env;
  const { data: name, error } = personName.optional().safeParse(as ?? (OPERATOR_NAME || undefined));
  if (error !== undefined) throw new Refused(`OPERATOR_NAME: ${error.issues[0]?.message}`);
  if (IN_CONTAINER === 'true') return `${name ?? 'unnamed'} (container ${hostname()})`;
  const login = SUDO_USER || ownLogin();
  return name === undefined ? login : `${name} (${login})`;
}

/** A user id without an entry in the system's list, as used by orchestrators, has no name. */
function ownLogin(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
