/** Gives a command the servers, opened when first needed, the way to answer, and the audit. */
import type { Client } from '@temporalio/client';
import type { Config } from '../config.js';
import type { Db } from '../redis/connection/db.js';

export interface Operator {
  readonly config: () => Config;
  readonly db: () => Promise<Db>;
  readonly temporal: () => Promise<Client>;
  /** The address of Temporal's UI; absent when its port is unknown. */
  readonly temporalUi: () => string | undefined;
  /** Where the service listens. */
  readonly api: () => string;
  /** The address of its metrics; absent when none was given: the usual port may be another service's. */
  readonly admin: () => string | undefined;
  /** With `--json` the one value, else the text. Called once by each command, at its end. */
  readonly answer: (value: unknown, forPeople: () => string) => void;
  /** One of many answers, as `watch` gives: with `--json` a line of its own. `answer` is not called then. */
  readonly next: (value: unknown, forPeople: () => string) => void;
  /** Whether a person looks on at a terminal: what is shown may be drawn over. */
  readonly isWatched: () => boolean;
  /** A line on the way, for people only. */
  readonly tell: (line: string) => void;
  /** On stderr, whatever the form of the answer. */
  readonly warn: (line: string) => void;
  /** @throws Refused where what is given as the operator's name is none */
  readonly checkName: () => void;
  /** Records a change, or that everything was read, under the operator's name. */
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
