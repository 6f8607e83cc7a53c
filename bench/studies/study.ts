import type { Theatre, TheatreOptions } from '../theatre.js';

/** A question about the service that a round of load does not answer: facts, bytes and curves. */
export interface Study<Size extends string = string> {
  name: string;
  about: string;
  /** Each is an option on the command line: its default, by which the figures in the documentation were made, and what it means. */
  sizes: Readonly<Record<Size, readonly [value: number, about: string]>>;
  run(sizes: Readonly<Record<Size, number>>, stage: Stage): Promise<Findings>;
}

/** What a study is given. */
export interface Stage {
  /** Starts the service with its servers, a publisher and a receiver, and ends what was open; ended with the study. */
  open(options?: Partial<TheatreOptions>): Promise<Theatre>;
  /** One more beside what is open. */
  openBeside(options?: Partial<TheatreOptions>): Promise<Theatre>;
  /** Progress, for the person who waits. */
  say(line: string): void;
}

export type Cell = string | number;

export interface Table {
  title: string;
  head: readonly string[];
  rows: readonly (readonly Cell[])[];
}

export interface Findings {
  tables: Table[];
  pictures?: [file: string, svg: string][];
}
