import type { Round } from '../measure.js';
import { spread } from '../percentile.js';
import { short, table } from '../report.js';
import type { Quantity } from './quantity.js';

/** One or two bounds of a figure. */
interface Goal {
  atLeast?: number;
  atMost?: number;
}

/** The rounds of one side of a comparison. */
export interface Side {
  name: string;
  rounds: readonly Round[];
}

/** Sums of the errors in the rounds of a figure. */
interface Wrong {
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
  /** The parts of the figure, or the figure of the floor. */
  beside: string;
  wrong: Wrong;
}

/** Divides a quantity of one side by the other side's, round by round. */
export function ratioRow(load: string, quantity: Quantity, of: Side, to: Side, goal?: Goal): Row {
  return {
    load,
    what: `${quantity.name}: ${of.name} / ${to.name}`,
    values: ratios(of.rounds.map(quantity.of), to.rounds.map(quantity.of)),
    goal,
    beside: `${medianText(of, quantity)} / ${medianText(to, quantity)}`,
    wrong: countWrong(of.rounds, to.rounds),
  };
}

/** Shows a quantity beside the floor's. */
export function quantityRow(load: string, quantity: Quantity, of: Side, floor: Side, goal?: Goal): Row {
  return {
    load,
    what: `${quantity.name}: ${of.name}`,
    values: of.rounds.map(quantity.of),
    goal,
    beside: `${floor.name} ${medianText(floor, quantity)}`,
    wrong: countWrong(of.rounds, floor.rounds),
  };
}

/** Returns the ratio of each pair of rounds; drops an incomplete pair of a stopped run. */
export function ratios(of: readonly number[], to: readonly number[]): number[] {
  return of.slice(0, to.length).map((value, i) => value / (to[i] ?? Number.NaN));
}

export function medianText(side: Side, quantity: Quantity): string {
  return numberText(median(side.rounds.map(quantity.of)));
}

export function median(values: readonly number[]): number {
  return spread(values).median;
}

export function countWrong(...sides: readonly (readonly Round[])[]): Wrong {
  const sum = (key: keyof Wrong) =>
    sides.flat().reduce((n, round) => n + (round.delivery?.accounting[key] ?? 0), 0);
  return { missing: sum('missing'), duplicates: sum('duplicates') };
}

/** Returns whether the median reaches the goal; undefined without a goal. A missing figure reaches none. */
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

/** Writes counts and goals without needless digits. */
export function numberText(value: number): string {
  if (!Number.isFinite(value)) return '';
  return Number.isInteger(value) ? value.toLocaleString('en') : short(value);
}
