/**
 * Operations of operators, each declared once: the command line, the calls under /operator and the pages of the desk are made
 * from the declarations, and carry them out.
 */
import type { Client as TemporalClient } from '@temporalio/client';
import type { z } from 'zod';
import type { Config } from '../config.js';
import type { ErrorCode } from '../http/errors.js';
import { createLogger, messageOf } from '../log.js';
import type { Sender } from '../outgoing/post.js';
import { originOf } from '../outgoing/target.js';
import type { Db } from '../redis/connection/db.js';
import { explainRefusals, isRedisUnavailable, refusalOf } from '../redis/connection/unavailable.js';
import { type Account, getAccount } from '../redis/records/accounts.js';
import { recordChange } from '../redis/records/audit.js';
import { type Client, getClient } from '../redis/records/clients.js';
import { getEndpoint } from '../redis/records/endpoint.js';
import type { Role } from '../redis/records/operatorAccess.js';
import { type Part, sentence, shownOf, tableOf } from './terminal.js';

export interface Answer {
  /** JSON. */
  value: unknown;
  /** The same for people. */
  shown: readonly Part[];
  /** Of a list: where the next page begins. */
  next?: string;
  /** Why the exit status of the command is 1, although there is an answer. */
  failed?: string;
}

/** Answers with a value, and with how people read it: by default the value's members. */
export const answer = (value: object, ...shown: Part[]): Answer => ({
  value,
  shown: shown.length > 0 ? shown : shownOf(value),
});

/**
 * Answers with a page of a list, of which people read a table, made when it is shown.
 * @param columns of the table; all members if absent
 * @param next where the next page begins
 * @param says sentences below the table
 */
export const listed = (
  value: readonly object[],
  { columns, none, next }: { columns?: string; none: string; next?: string },
  ...says: string[]
): Answer => ({
  value,
  get shown() {
    return [tableOf(value, none, columns?.split(' ')), ...says];
  },
  ...(next && { next }),
});

export interface Page {
  limit: number;
  after?: string;
  /** True: of a list that grows at its end, the last entries, the newest first. */
  isNewest?: boolean;
}

export const unlimited: Page = { limit: Number.POSITIVE_INFINITY };

/** Cuts a page from a whole list. @param idOf a text that is unique */
export function cutPage<T>(all: readonly T[], { limit, after }: Page, idOf: (one: T) => string) {
  const from = after === undefined ? 0 : all.findIndex((one) => idOf(one) === after) + 1;
  if (after !== undefined && from === 0) throw notACursor();
  const page = all.slice(from, from + limit);
  const last = page.at(-1);
  return { page, next: from + limit < all.length && last !== undefined ? idOf(last) : undefined };
}

export const notACursor = () => new Refused('cursor is not a next_cursor of this call', 'invalid_request');

/** What an operation works with. */
export interface Operator {
  role: Role;
  config(): Config;
  db(): Promise<Db>;
  temporal(): Promise<TemporalClient>;
  sender(): Promise<Sender>;
  /** The operator's name, and how the operator came in. */
  who: string;
  /** Tells the operator something beside the answer. */
  warn(line: string): void;
  /** Makes a change; resolves once the change is on Redis' disk. */
  change<T>(write: (db: Db) => Promise<T>): Promise<T>;
  /** Records under the operator's name a change that follows: a crash leaves none without an entry. */
  record(what: string, target: string, before: unknown, after: unknown): Promise<void>;
  /**
   * Wakes the client's catch-up, after the change itself. Without Temporal this warns and returns: the sweep finds the
   * client within 30 seconds after Temporal is back.
   */
  wake(clientToken: string): Promise<boolean>;
}

export const log = createLogger('silent', 'operator');

type Own = Omit<Operator, 'change' | 'record' | 'wake'>;

/** @param why the operator's reason, for the audit */
export function createOperator(own: Own, why?: string): Operator {
  const { config, db, temporal, who, warn } = own;
  const change = async <T>(write: (db: Db) => Promise<T>): Promise<T> =>
    await (await db()).durably(write).safe;
  return {
    ...own,
    change,
    async record(what, target, before, after) {
      await change((changed) => recordChange(changed, { who, what, target, before, after, why }));
      if (who.startsWith('unnamed ('))
        warn('Recorded without a name: give yours with --as NAME or OPERATOR_NAME.');
    },
    async wake(clientToken) {
      try {
        if ((await getEndpoint(await db(), clientToken)).owed === 0) return true;
        const { createCatchUps } = await import('../temporal/catchUps.js');
        const deps = { temporal: await temporal(), db: await db(), taskQueue: config().TASK_QUEUE, log };
        if ((await createCatchUps(deps).alarm(clientToken)) === 'failed')
          throw new Error('Temporal does not answer, or refuses it.');
        return true;
      } catch (err) {
        warn(
          `Done, but catch-up could not be woken; the sweep wakes it within 30 seconds, once Temporal is back. ${messageOf(err)}`,
        );
        return false;
      }
    },
  };
}

export interface Operation<Input extends z.ZodObject = z.ZodObject> {
  /** The words of the command, then its arguments, which are the first members of the input: `client set <token>`. */
  command: string;
  does: string;
  role: Role;
  /** True: it changes or sends something, asks for a reason, and is in the audit; by default if whoever may only look may not. */
  changes: boolean;
  input: Input;
  answers: z.ZodType;
  /** The name of the list that a call answers page by page; `answers` is the schema of one entry. */
  list?: string;
  run(operator: Operator, input: z.output<Input>, page: Page): Promise<Answer>;
}

export const operation = <Input extends z.ZodObject>(
  of: Omit<Operation<Input>, 'changes'> & { changes?: boolean },
): Operation => ({ changes: of.role !== 'look', ...of }) as unknown as Operation;

/** Returns the words of an operation's command without its arguments. */
export const nameOf = ({ command }: Pick<Operation, 'command'>): string => command.replace(/ [<[].*/, '');

/** Returns the arguments of a command by the members of the input that take them, each as it is written: `<token>`. */
export function argumentsOf({ command, input }: Pick<Operation, 'command' | 'input'>): Map<string, string> {
  const members = Object.keys(input.shape);
  const words = command.match(/[<[][^>\]]*[>\]]/g) ?? [];
  return new Map(words.map((word, i) => [members[i] ?? '', word]));
}

/** The operation is understood but not carried out. The message is for the operator. */
export class Refused extends Error {
  override name = 'Refused';
  constructor(
    message: string,
    readonly code: ErrorCode = 'refused',
    /** What to do about it, where a server does not serve. */
    readonly todo?: string,
  ) {
    super(message);
  }
}

/** Returns a URL as a role may see it: whoever may only look sees its scheme and host, because the rest may hold a secret. */
export const shownUrl = ({ role }: Pick<Operator, 'role'>, url: string): string =>
  role === 'look' ? originOf(url) : url;

/** @throws Refused if there is no such account */
export async function requireAccount(operator: Operator, id: string): Promise<Account> {
  const account = await getAccount(await operator.db(), id);
  if (account === undefined) throw new Refused(`There is no account ${id}.`, 'unknown_account');
  return account;
}

/** @throws Refused if there is no such client */
export async function requireClient(operator: Operator, clientToken: string): Promise<Client> {
  const client = await getClient(await operator.db(), clientToken);
  if (client === undefined) throw new Refused(`There is no client ${clientToken}.`, 'unknown_client');
  return client;
}

/** Returns why an operation was not carried out, for the operator. @param isChange it may have changed something */
export function explainError(err: unknown, isChange = false): string {
  if (err instanceof Refused) return err.message;
  if (isRedisUnavailable(err)) {
    const [why] = explainRefusals([refusalOf(err)]);
    const may = isChange ? ' The command may or may not have taken effect.' : '';
    return `${why?.says}${may} ${why?.todo}`;
  }
  return sentence(messageOf(err));
}
