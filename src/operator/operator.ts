/** The dependencies of a command: servers, opened when first needed, its output, and the audit. */
import type { Client } from '@temporalio/client';
import type { Config } from '../config.js';
import type { Db } from '../redis/connection/db.js';

export interface Operator {
  readonly config: () => Config;
  readonly db: () => Promise<Db>;
  /** Makes a change; resolves once it is on Redis' disk. */
  readonly change: <T>(write: (db: Db) => Promise<T>) => Promise<T>;
  readonly temporal: () => Promise<Client>;
  /** The address of Temporal's UI; absent when its port is unknown. */
  readonly temporalUi: () => string | undefined;
  /** Where the service listens. */
  readonly api: () => string;
  /** The address of its metrics; absent if none was given, as the default port may belong to another service. */
  readonly admin: () => string | undefined;
  /** Prints the one value with `--json`, else the text. Each command calls it once, at its end. */
  readonly answer: (value: unknown, forPeople: () => string) => void;
  /** Prints one of many answers, as `watch` does: with `--json` one line each. `answer` is not called then. */
  readonly next: (value: unknown, forPeople: () => string) => void;
  /** Whether the output is a terminal, which may be redrawn. */
  readonly isWatched: () => boolean;
  /** Prints a line of progress, for people only. */
  readonly tell: (line: string) => void;
  /** Prints to stderr, also with `--json`. */
  readonly warn: (line: string) => void;
  /** @throws Refused if the given operator's name is not valid */
  readonly checkName: () => void;
  /** Records a change under the operator's name. */
  readonly record: (change: {
    what: string;
    target: string;
    before: unknown;
    after: unknown;
  }) => Promise<void>;
  /**
   * Wakes the client's catch-up, after the change itself. Without Temporal it warns and returns: the sweep finds the
   * client within 2 minutes.
   */
  readonly wake: (clientToken: string) => Promise<void>;
}
