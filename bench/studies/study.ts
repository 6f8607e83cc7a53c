import type { Theatre, TheatreOptions } from '../theatre.js';

/** A question about the service that a round of load does not answer. */
export interface Study<Size extends string = string> {
  name: string;
  about: string;
  /** Options on the command line: the default, with which the figures in the documentation were made, and the meaning. */
  sizes: Readonly<Record<Size, readonly [value: number, about: string]>>;
  run(sizes: Readonly<Record<Size, number>>, stage: Stage): Promise<Findings>;
}

/** The dependencies of a study. */
export interface Stage {
  /** Ends an earlier theatre, then starts the service with its servers, a publisher and a receiver, until the study ends. */
  open(options?: Partial<TheatreOptions>): Promise<Theatre>;
  /** Starts one more beside the open one. */
  openBeside(options?: Partial<TheatreOptions>): Promise<Theatre>;
  /** Prints progress for people. */
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
