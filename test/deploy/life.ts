/** What a life is made of. */
import type { Role } from '../../src/compose.js';
import type { Stage } from './recordLife.js';

/** The name of a life's file. */
export const fileOf = (life: string): string => `${life.replaceAll(/\W+/g, '-').toLowerCase()}.json`;

/** The distance of two scrapes, and of two evaluations. */
export const everySeconds = 15;

/** Waits until a second of the life. */
export type At = (second: number) => Promise<unknown>;

export interface Life {
  seconds: number;
  roles?: Record<'a' | 'b', Role>;
  act(stage: Stage, at: At): Promise<unknown>;
}

/** The roles of processes that are apart. */
export const apart = { a: 'api', b: 'worker' } as const;

/** Does something at 60 s, and undoes it later. */
export const during = (
  till: number,
  begin: (stage: Stage) => unknown,
  end: (stage: Stage) => unknown,
  afterwards = 150,
): Life => ({
  seconds: till + afterwards,
  async act(stage, at) {
    await at(60);
    await begin(stage);
    await at(till);
    await end(stage);
  },
});

/** Stops a process, and starts it again. */
export const restarted = async (stage: Stage, one: 'a' | 'b', more?: Record<string, string>) => {
  await stage.processOf(one).stop();
  await stage.start(one, more);
};

/** Has a process stand still again and again: at these seconds, for so long. */
export async function standStill(
  stage: Stage,
  one: 'a' | 'b',
  at: At,
  { from = 60, till = 0, each = 1, ms = 0 },
) {
  for (let second = from; second < till; second += each) {
    await at(second);
    stage.processOf(one).signal('SIGSTOP');
    await at(second + ms / 1000);
    stage.processOf(one).signal('SIGCONT');
  }
}
