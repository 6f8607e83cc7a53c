/** One run of the command line: the servers, opened when first needed, the output, the audit, and refusals. */
import { hostname, userInfo } from 'node:os';
import type { Connection } from '@temporalio/client';
import type { Command } from 'commander';
import {
  ConfigError,
  durabilityOf,
  isGiven,
  isTemporalGiven,
  keepSegmentsSeconds,
  readConfig,
} from '../config.js';
import { createLogger, messageOf } from '../log.js';
import { ResolverUnavailable, TargetRefused } from '../outgoing/target.js';
import { closeDb, type Db, openDb } from '../redis/connection/db.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { type Account, getAccount } from '../redis/records/accounts.js';
import { recordChange } from '../redis/records/audit.js';
import {
  type Client,
  ClientTokenTaken,
  getClient,
  UnknownAccount,
  UnknownClient,
} from '../redis/records/clients.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { SecretUnreadable } from '../redis/records/secretBox.js';
import { projectDir, type RunningHere, readRunState } from './npmStart.js';
import { waitForReads } from './redisChecks.js';

/** What commands work with. */
export type Operator = ReturnType<typeof openSession>;

/** Adds a command. Once it runs, a session is opened for `carryOut`, which gets the command's arguments after the operator. */
export type AddCommand = <Given extends unknown[]>(
  name: string,
  description: string,
  carryOut: (operator: Operator, ...given: Given) => Promise<void>,
) => Command;

/** The command is understood but not carried out: the reason goes to stderr, the exit status is 1. */
export class Refused extends Error {
  override name = 'Refused';
}

export class RedisAway extends Refused {}

/** A person waits: after 5 s the command says that a server does not answer. */
const patienceMs = 5000;

/** @throws Refused if the given operator's name is not valid */
export function openSession(options: { json?: boolean; as?: string }) {
  const who = whoOf(options.as);
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
      commandTimeoutMs: patienceMs,
    });
    try {
      await waitForReads(store, patienceMs);
    } catch {
      throw new RedisAway(`Redis does not answer at ${withoutPassword(url)}.`);
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
      connectTimeout: patienceMs,
    });
    try {
      const namespace = config().TEMPORAL_NAMESPACE;
      return new Client({ connection: await connection, namespace });
    } catch {
      throw new Refused(`Temporal does not answer at ${address}.`);
    }
  });

  /** Makes a change; resolves once it is on Redis' disk. */
  const change = async <T>(write: (db: Db) => Promise<T>): Promise<T> =>
    await (await db()).durably(write).safe;
  /** Prints to stderr, also with `--json`. */
  const warn = (line: string) => void process.stderr.write(`${line}\n`);

  return {
    ...{ config, db, temporal, change, warn },
    /** Returns the ids of workflows. Loaded only when needed, like Temporal's client. */
    workflowIds: async () => (await import('../temporal/workflowIds.js')).workflowIds(config().TASK_QUEUE),
    /** Returns the address of Temporal's UI; undefined if its port is unknown. */
    temporalUi: () => config().TEMPORAL_UI_URL ?? running()?.temporalUiUrl,
    /** Returns where the service listens. */
    api: () => running()?.apiUrl ?? `http://${hostInUrl(config().HOST)}:${config().PORT}`,
    /** Prints the one value with `--json`, else the text. Each command calls it once, at its end. */
    answer(value: unknown, forPeople: () => string) {
      const shown = options.json ? JSON.stringify(value, null, 2) : forPeople();
      if (shown !== '') process.stdout.write(`${shown}\n`);
    },
    /** Prints a line of progress, for people only. */
    tell(line: string) {
      if (!options.json) process.stdout.write(`${line}\n`);
    },
    /** Records a change under the operator's name. */
    async record(what: string, target: string, before: unknown, after: unknown) {
      await change((own) => recordChange(own, { who, what, target, before, after }));
      if (isUnnamed(who)) warn('Recorded without a name: give yours with --as NAME or OPERATOR_NAME.');
    },
    /**
     * Wakes the client's catch-up, after the change itself. Without Temporal it warns and returns: the sweep finds the
     * client within 30 seconds.
     */
    async wake(clientToken: string) {
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

/** @throws Refused if there is no such account */
export async function requireAccount(operator: Operator, id: string): Promise<Account> {
  const account = await getAccount(await operator.db(), id);
  if (account === undefined) throw new Refused(`There is no account ${id}.`);
  return account;
}

/** @throws Refused if there is no such client */
export async function requireClient(operator: Operator, clientToken: string): Promise<Client> {
  const client = await getClient(await operator.db(), clientToken);
  if (client === undefined) throw new Refused(`There is no client ${clientToken}.`);
  return client;
}

/** Returns why a command was not carried out, for the person who typed it. */
export function reasonOf(err: unknown): string {
  if (err instanceof Refused || err instanceof ConfigError) return err.message;
  if (err instanceof Error && spoken.some((kind) => err instanceof kind))
    return err.message.charAt(0).toUpperCase() + err.message.slice(1);
  if (isRedisUnavailable(err))
    return 'Redis does not answer or is full; the command may or may not have taken effect.';
  return err instanceof Error ? `${err.name}: ${err.message}` : String(err);
}

/** Errors of the store and the guard whose message is meant for people. */
const spoken = [
  TargetRefused,
  ResolverUnavailable,
  UnknownAccount,
  UnknownClient,
  ClientTokenTaken,
  SecretUnreadable,
];

/** Returns undefined if the environment names both servers, which may be different ones. */
function runningHere(): RunningHere | undefined {
  return isGiven('REDIS_URL') && isTemporalGiven() ? undefined : readRunState();
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
  const name = (as ?? (OPERATOR_NAME || undefined))?.trim();
  if (name !== undefined && (!/^[^\p{Cc}\p{Cf}]{1,64}$/u.test(name) || name === unnamed)) {
    throw new Refused(
      'A name (--as, OPERATOR_NAME) has 1 to 64 characters, none of them a control character.',
    );
  }
  if (IN_CONTAINER === 'true') return `${name ?? unnamed} (container ${hostname()})`;
  const login = SUDO_USER || ownLogin();
  return name === undefined ? login : `${name} (${login})`;
}

const isUnnamed = (who: string): boolean => who.startsWith(`${unnamed} (`);

/** A user id without an entry in the system's list, as used by orchestrators, has no name. */
function ownLogin(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
