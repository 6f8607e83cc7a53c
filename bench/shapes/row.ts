import type { Round } from '../measure.js';
import { spread } from '../percentile.js';
import { short, table } from '../report.js';
import type { Quantity } from './quantity.js';

/** A bound that a figure is to keep, or two. */
export interface Goal {
  atLeast?: number;
  atMost?: number;
}

/** The rounds of one of the sides that are compared. */
export interface Side {
  name: string;
  rounds: readonly Round[];
}

/** What went wrong in the rounds behind a figure, in sum. */
export interface Wrong {
  missing: number;
  duplicates: number;
}

/** One figure of a load. */
export interface Row {
  load: string;
  what: string;
  /** One for each round; the median is the figure. */
  values: readonly number[];
  goal?: Goal;
  /** What the figure is made of, or what the floor has in its place. */
  beside: string;
  wrong: Wrong;
}

/** How often a quantity of one side goes into that of the other, round by round, as they took turns. */
export function ratioRow(load: string, quantity: Quantity, of: Side, to: Side, goal?: Goal): Row {
  return {
    load,
    what: `${quantity.name}: ${of.name} / ${to.name}`,
    values: ratios(of.rounds.map(quantity.of), to.rounds.map(quantity.of)),
    ...(goal === undefined ? {} : { goal }),
    beside: `${medianText(of, quantity)} / ${medianText(to, quantity)}`,
    wrong: wrongOf(of.rounds, to.rounds),
  };
}

/** A quantity by itself, with the floor's beside it. */
export function quantityRow(load: string, quantity: Quantity, of: Side, floor: Side, goal?: Goal): Row {
  return {
    load,
    what: `${quantity.name}: ${of.name}`,
    values: of.rounds.map(quantity.of),
    ...(goal === undefined ? {} : { goal }),
    beside: `${floor.name} ${medianText(floor, quantity)}`,
    wrong: wrongOf(of.rounds, floor.rounds),
  };
}

/** Of each pair; a pair that a stopped run left without its other half is dropped. */
export function ratios(of: readonly number[], to: readonly number[]): number[] {
  return of.slice(0, to.length).map((value, i) => value / (to[i] ?? Number.NaN));
}

export function medianText(side: Side, quantity: Quantity): string {
  return numberText(median(side.rounds.map(quantity.of)));
}

export function median(values: readonly number[]): number {
  return spread(values).median;
}

export function wrongOf(...sides: readonly (readonly Round[])[]): Wrong {
  const sum = (key: keyof Wrong) =>
    sides.flat().reduce((n, round) => n + (round.delivery?.accounting[key] ?? 0), 0);
  return { missing: sum('missing'), duplicates: sum('duplicates') };
}

/** Whether the median keeps the goal; undefined without a goal. A figure that could not be taken reaches none. */
export function isReached({ values, goal }: Pick<Row, 'values' | 'goal'>): boolean | undefined {
  if (goal === undefined) return undefined;
  const figure = median(values);
  return (
    figure >= (goal.atLeast ?? Number.NEGATIVE_INFINITY) &&
    figure <= (goal.atMost ?? Number.POSITIVE_INFINITY)
  );
}

export function rowsMarkdown(rows: readonly Row[]): string {
  return table(
    ['load', 'what', 'figure', 'goal', 'reached', 'beside', 'missing', 'duplicates'],
    rows.map((row) => [
      row.load,
      row.what,
      figureText(row.values),
      goalText(row.goal),
      { true: 'yes', false: '**no**', undefined: '' }[`${isReached(row)}`],
      row.beside,
      String(row.wrong.missing),
      String(row.wrong.duplicates),
    ]),
  );
}

function figureText(values: readonly number[]): string {
  const { min, median, max } = spread(values);
  if (values.length < 2) return numberText(median);
  return `${numberText(min)} / **${numberText(median)}** / ${numberText(max)}`;
}

function goalText(goal: Goal | undefined): string {
  const { atLeast, atMost } = goal ?? {};
  if (atLeast !== undefined && atLeast === atMost) return numberText(atLeast);
  return [
    ...(atLeast === undefined ? [] : [`at least ${numberText(atLeast)}`]),
    ...(atMost === undefined ? [] : [`at most ${numberText(atMost)}`]),
  ].join(', ');
}

/** Counts and goals without needless digits. */
export function numberText(value: number): string {
  if (!Number.isFinite(value)) return '';
  return Number.isInteger(value) ? value.toLocaleString('en') : short(value);
}
