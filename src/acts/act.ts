/**
 * Acts: what a person or a program can do to the service. Each act is one function of an actor and an input, and answers a value.
 * Its doors (a call, a command, a form) parse the input, say who acts, show what their own schema names, and choose the words.
 */
import type { Config } from '../config.js';
import { unavailable } from '../http/apiError.js';
import type { Logger } from '../log.js';
import type { Sender } from '../outgoing/post.js';
import { originOf } from '../outgoing/target.js';
import type { Db } from '../redis/connection/db.js';
import type { Recording } from '../redis/records/audit.js';
import type { StateChange } from '../redis/records/endpoint.js';
import type { MadeWith, Role } from '../redis/records/operatorAccess.js';
import type { SecretBox } from '../redis/records/secretBox.js';
import { isPast, momentIn } from '../times.js';
import type { Subject } from './subjects.js';

/** Who may carry out an act; absent: nobody of that kind. */
export interface May {
  /** By an access token: with any scope of the client's account, also by the platform's, by it alone, or with `signing_secrets` if the account has it. */
  publisher?: 'any' | 'orPlatform' | 'platform' | 'signingSecrets';
  operator?: Role;
}

/** Who may, where it is the same for several acts: operators of a role, and any publisher or such an operator. */
export const admin: May = { operator: 'admin' };
export const support: May = { operator: 'support' };
export const look: May = { operator: 'look' };
export const anyPublisher: May = { publisher: 'any' };
export const anyOrLook: May = { publisher: 'any', operator: 'look' };
export const anyOrSupport: May = { publisher: 'any', operator: 'support' };
export const orPlatformOrLook: May = { publisher: 'orPlatform', operator: 'look' };
export const withSecrets: May = { publisher: 'signingSecrets' };

/** What the audit says of an act before it changes anything: no secret; of a `url` it shows the scheme and host. */
export interface Entry {
  target: string;
  before?: unknown;
  after?: unknown;
  /** How many notifications an operator's act cancels, for the metric: the sweep counts them. */
  cancels?: number | undefined;
  /** What a publisher's entry says instead of `before` and `after`; by default `after`. */
  about?: Record<string, unknown>;
}

/** How a publisher's act is counted and kept. */
export interface Counting extends Recording {
  /** As how many calls that send something it counts. */
  sends?: 1 | 2 | 5;
  /** Whether it counts as a call that sets what later ones send. */
  sets?: true;
}

/** Who carries out an act, and what the act works with. */
export interface Actor {
  by: Exclude<StateChange['by'], 'service'>;
  accountId?: string;
  /** @throws ApiError 403, or 404 for a client that is not the actor's */
  permit(may: May, client?: Subject): Promise<void>;
  /** Counts an act, and records it. Await it directly before the change: a crash leaves no change without an entry. @throws ApiError 429 */
  admit(act: string, entry: Entry, counting?: Counting): Promise<void>;
  /** Makes a change; resolves once the change is on Redis' disk. */
  change<T>(write: (db: Db) => Promise<T>): Promise<T>;
  /** Wakes the client's catch-up, after the change. @returns false if only the sweep will */
  wake(clientToken: string): Promise<boolean>;
  /** Claims the notices of a change that was made. If that fails, the sweep claims them. */
  claimNotices(clientToken: string): Promise<void>;
  /** Reports a change of a state, where the sweep does not. */
  report(change: Omit<StateChange, 'at' | 'by'>): void;
  /** Counts notifications that the act has cancelled, where the sweep does not. */
  countCancelled(count: number): void;
  countPiece(): void;
  /** Waits for work that sends something, but not beyond the beginning of the process' end. @throws ApiError 503 */
  unlessEnding<T>(work: Promise<T>): Promise<T>;
  /** Checks that notifications may go to a URL. @throws ApiError, TargetRefused, ResolverUnavailable */
  checkUrl(url: string): Promise<void>;
  /** Returns a URL as the actor may see it: only its scheme and host, if the rest may hold a secret. */
  shownUrl(url: string): string;
  warn(line: string): void;
  log: Logger;
  config(): Config;
  db(): Promise<Db>;
  /** The operator's token: links to the desk end with it. */
  token?: MadeWith | undefined;
  /** Who it is, for the audit of what a link of the actor's lets others do. */
  name: string;
  maySeeSecrets(): Promise<boolean>;
  /** What reads and writes secrets. @throws SecretUnreadable if SECRETS_KEY is not that of the installation */
  secretBox(): Promise<SecretBox>;
  sender(): Promise<Sender>;
}

/** Whether what an answer reports is good. An act's answer without a `tone` is good. */
export type Tone = 'good' | 'warn' | 'bad';

export const toneOf = (answer: object): Tone => ('tone' in answer ? (answer.tone as Tone) : 'good');

/** What an act takes is named as at its doors, in the contract's words; `client`: the client that it is about. */
export interface Act<Input, Answer> {
  (actor: Actor, input: Input): Promise<Answer>;
  title: string;
  may: May;
}

/** Counts the act, and records it: `Actor.admit`. */
export type Admit = (entry: Partial<Entry>, counting?: Counting) => Promise<void>;

/** A process that stands still for longer within an act changes nothing more: its caller may have made another change by then. */
const longestPauseMs = 120_000;

/** Declares an act: nobody carries it out who may not, whichever door is used. */
export function act<Input extends object, Answer>(
  title: string,
  may: May,
  carryOut: (actor: Actor, input: Input, admit: Admit) => Promise<Answer>,
): Act<Input, Answer> {
  const permitted = async (actor: Actor, input: Input): Promise<Answer> => {
    const { client } = input as { client?: Subject };
    let ends = momentIn(longestPauseMs);
    await actor.permit(may, client);
    const change: Actor['change'] = async (write) => {
      if (isPast(ends)) throw unavailable('the process stood still');
      ends = momentIn(longestPauseMs);
      return actor.change(write);
    };
    return carryOut({ ...actor, change }, input, admitted(actor, title, client));
  };
  return Object.assign(permitted, { title, may });
}

/** Returns what admits this act. Its target is the client, unless the entry names another. */
export const admitted =
  (actor: Actor, title: string, client?: Subject): Admit =>
  (entry, counting) =>
    actor.admit(title, hidden({ target: client?.clientToken ?? '', ...entry }), counting);

/** Leaves of each URL in an entry its scheme and host: the rest may hold a secret. */
const hidden = (entry: Entry): Entry =>
  JSON.parse(JSON.stringify(entry, (name, value) => (name === 'url' && value ? originOf(value) : value)));
