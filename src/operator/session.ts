/** One run of the command line: the servers, opened when first needed, the output, the audit, and refusals. */
import { hostname, userInfo } from 'node:os';
import type { Client as TemporalClient } from '@temporalio/client';
import type { Command } from 'commander';
import { hostInUrl } from '../addresses.js';
import { type Config, isRedisGiven, isTemporalGiven, readConfig, redisOptions } from '../config.js';
import { createLogger, messageOf } from '../log.js';
import { closeDb, type Db, openDb } from '../redis/connection/db.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { type Account, getAccount } from '../redis/records/accounts.js';
import { recordChange } from '../redis/records/audit.js';
import { type Client, getClient } from '../redis/records/clients.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import { projectDir, type RunningHere, readRunState } from './npmStart.js';
import { waitForReads } from './redisChecks.js';
import { facts, type Value } from './terminal.js';

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

const log = createLogger('silent', 'operator');

/** @throws Refused if the given operator's name is not valid */
export function openSession({ json = false, as }: { json?: boolean; as?: string }) {
  const who = nameOperator(as);
  let ran: RunningHere | undefined;
  let read: Config | undefined;
  let store: Promise<Db> | undefined;
  let client: Promise<TemporalClient> | undefined;

  // If the environment names both servers, `npm start` may run others.
  const running = () => (ran ??= (isRedisGiven() && isTemporalGiven() ? undefined : readRunState()) ?? {});
  const config = () => (read ??= readConfig(process.env, running().environment));
  const db = () => (store ??= connectRedis(config(), running()));
  const temporal = () => (client ??= connectTemporal(config(), running()));
  /** Makes a change; resolves once the change is on Redis' disk. */
  const change = async <T>(write: (db: Db) => Promise<T>): Promise<T> =>
    await (await db()).durably(write).safe;
  /** Prints to stderr, even with `--json`. */
  const warn = (line: string) => void process.stderr.write(`${line}\n`);

  return {
    config,
    db,
    temporal,
    change,
    warn,
    /** Returns the ids of workflows. Loaded only when needed, like Temporal's client. */
    workflowIds: async () => (await import('../temporal/workflowIds.js')).workflowIds(config().TASK_QUEUE),
    /** Returns the address of Temporal's UI; undefined if its port is unknown. */
    temporalUi: () => config().TEMPORAL_UI_URL ?? running().temporalUiUrl,
    /** Returns where the service listens. */
    api: () => running().apiUrl ?? `http://${hostInUrl(config().HOST)}:${config().PORT}`,
    /** Prints the value with `--json`, else the text, or the value's members a line each. Every command calls it once, at its end. */
    answer(value: object, text = facts(value as Record<string, Value>)) {
      const shown = json ? JSON.stringify(value, null, 2) : text;
      if (shown !== '') process.stdout.write(`${shown}\n`);
    },
    /** Prints a line of progress, for people only. */
    showProgress(line: string) {
      if (!json) process.stdout.write(`${line}\n`);
    },
    /** Records a change under the operator's name. */
    async record(what: string, target: string, before: unknown, after: unknown) {
      await change((own) => recordChange(own, { who, what, target, before, after }));
      if (who.startsWith('unnamed ('))
        warn('Recorded without a name: give yours with --as NAME or OPERATOR_NAME.');
    },
    /**
     * Wakes the client's catch-up, after the change itself. Without Temporal this warns and returns: the sweep finds the
     * client within 30 seconds.
     */
    async wake(clientToken: string) {
      try {
        if ((await getEndpoint(await db(), clientToken)).owed === 0) return;
        const { createCatchUps } = await import('../temporal/catchUps.js');
        const deps = { temporal: await temporal(), db: await db(), taskQueue: config().TASK_QUEUE, log };
        await createCatchUps(deps).wakeNow(clientToken);
      } catch (err) {
        warn(
          `Done, but catch-up could not be woken; the sweep wakes it within 30 seconds. ${messageOf(err)}`,
        );
      }
    },
    async close() {
      await Promise.allSettled([store?.then(closeDb), client?.then(({ connection }) => connection.close())]);
    },
  };
}

async function connectRedis(config: Config, { redisUrl }: RunningHere): Promise<Db> {
  const url = requireAddress('REDIS_URL', isRedisGiven() ? config.REDIS_URL : redisUrl);
  const db = openDb({ ...redisOptions(config), url, log, commandTimeoutMs: patienceMs });
  try {
    await waitForReads(db, patienceMs);
    return db;
  } catch {
    closeDb(db);
    throw new RedisAway(`Redis does not answer at ${withoutPassword(url)}.`);
  }
}

async function connectTemporal(config: Config, { temporalAddress }: RunningHere): Promise<TemporalClient> {
  // Loaded only when needed, because it takes half of a command's start time.
  const { Client, Connection } = await import('@temporalio/client');
  const given = isTemporalGiven() ? config.TEMPORAL_ADDRESS : temporalAddress;
  const address = requireAddress('TEMPORAL_ADDRESS', given);
  try {
    const options = { ...config.temporalConnection, address, connectTimeout: patienceMs };
    const connection = await Connection.connect(options);
    return new Client({ connection, namespace: config.TEMPORAL_NAMESPACE });
  } catch {
    throw new Refused(`Temporal does not answer at ${address}.`);
  }
}

function requireAddress(name: 'REDIS_URL' | 'TEMPORAL_ADDRESS', address: string | undefined): string {
  if (address !== undefined) return address;
  throw new Refused(
    `No servers found: ${name} is not set and "npm start" does not run in ${projectDir}.\n` +
      'Run "npm start", or set REDIS_URL and TEMPORAL_ADDRESS.',
  );
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
export function explainError(err: unknown): string {
  if (err instanceof Refused) return err.message;
  if (isRedisUnavailable(err))
    return 'Redis does not answer or is full; the command may or may not have taken effect.';
  const reason = messageOf(err);
  return reason.charAt(0).toUpperCase() + reason.slice(1);
}

function withoutPassword(url: string): string {
  return url.replace(/\?.*$/, '').replace(/(\/\/|,)[^@/,]*@/g, '$1');
}

/** `NAME (login)` if a name is given by `--as` or OPERATOR_NAME, else the login, which in a container names no person. */
function nameOperator(as: string | undefined): string {
  // SUDO_USER is the login of the person who called `sudo`. The image sets IN_CONTAINER: its login names no person.
  const { OPERATOR_NAME, SUDO_USER, IN_CONTAINER } = process.env;
  const name = (as ?? (OPERATOR_NAME || undefined))?.trim();
  if (name !== undefined && (!/^[^\p{Cc}\p{Cf}]{1,64}$/u.test(name) || name === 'unnamed')) {
    throw new Refused(
      'A name (--as, OPERATOR_NAME) has 1 to 64 characters, none of them a control character.',
    );
  }
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
