/** What commands work with: servers, opened when first needed, the output, and the audit. */
import type { Client as Temporal } from '@temporalio/client';
import type { Command } from 'commander';
import type { Config } from '../config.js';
import type { Db } from '../redis/connection/db.js';
import { type Account, getAccount } from '../redis/records/accounts.js';
import { type Client, getClient } from '../redis/records/clients.js';

export interface Operator {
  readonly config: () => Config;
  readonly db: () => Promise<Db>;
  /** Makes a change; resolves once it is on Redis' disk. */
  readonly change: <T>(write: (db: Db) => Promise<T>) => Promise<T>;
  readonly temporal: () => Promise<Temporal>;
  /** The address of Temporal's UI; absent when its port is unknown. */
  readonly temporalUi: () => string | undefined;
  /** Where the service listens. */
  readonly api: () => string;
  /** Prints the one value with `--json`, else the text. Each command calls it once, at its end. */
  readonly answer: (value: unknown, forPeople: () => string) => void;
  /** Prints a line of progress, for people only. */
  readonly tell: (line: string) => void;
  /** Prints to stderr, also with `--json`. */
  readonly warn: (line: string) => void;
  /** @throws Refused if the given operator's name is not valid */
  readonly checkName: () => void;
  /** Records a change under the operator's name. */
  readonly record: (what: string, target: string, before: unknown, after: unknown) => Promise<void>;
  /**
   * Wakes the client's catch-up, after the change itself. Without Temporal it warns and returns: the sweep finds the
   * client within 30 seconds.
   */
  readonly wake: (clientToken: string) => Promise<void>;
}

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
