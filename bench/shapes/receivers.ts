import type { ReceiverBehaviour } from '../jobs.js';
import type { Round } from '../measure.js';
import { answeredPerSecond, arrivalP99, cpuMs, deliveredPerSecond } from './quantity.js';
import { countWrong, quantityRow, type Row, ratioRow, type Side } from './row.js';
import { callers, type Shape, type ShapeStage, usualClients } from './shape.js';

const slowMs = 200;
const slowClients = 60;

const slow: Shape = {
  name: 'slow-receivers',
  about: `receivers that take ${slowMs} ms, ${slowClients} clients, 64 and 256 callers; beside ones that answer at once`,
  run: (stage) =>
    atBothCallers(
      stage,
      slowClients,
      { name: 'slow', receiver: { latencyMs: slowMs }, floorToo: true },
      (count, { usual, changed, floor }) => {
        const load = `${count} callers, receivers that take ${slowMs} ms`;
        return [
          ratioRow(load, deliveredPerSecond, changed, usual, { atLeast: count === 64 ? 0.75 : 0.8 }),
          quantityRow(load, arrivalP99, changed, floor, { atMost: count === 64 ? 600 : 1000 }),
          ratioRow(load, cpuMs, changed, usual, { atMost: 1.3 }),
          ratioRow(load, deliveredPerSecond, changed, floor),
        ];
      },
    ),
};

/** The first retry follows after 5 to 5.5 s. With this warm-up the window has as many retries as failures. */
const refusingWarmUpMs = 6000;

const refusing: Shape = {
  name: 'refusals',
  about: 'one in ten notifications is answered 503 once, 64 and 256 callers; beside none',
  run: (stage) =>
    atBothCallers(
      stage,
      usualClients,
      { name: 'refusing', receiver: { refusesOneInTen: true }, warmUpAtLeastMs: refusingWarmUpMs },
      (count, { usual, changed, floor }) => {
        const load = `${count} callers, one in ten answered 503 once`;
        const refusedRow = (p: 'p50' | 'p99'): Row => ({
          load,
          what: `accept to delivery of the refused, ${p}, ms`,
          values: changed.rounds.map((round) => round.delivery?.refused?.latency[p] ?? Number.NaN),
          goal: { atLeast: 5000, atMost: 6000 },
          beside: `${sum(changed.rounds, (round) => round.delivery?.refused?.count)} refused`,
          wrong: countWrong(changed.rounds),
        });
        return [
          ratioRow(load, answeredPerSecond, changed, usual, { atLeast: 0.85 }),
          ratioRow(load, cpuMs, changed, usual, { atMost: 1.6 }),
          refusedRow('p50'),
          refusedRow('p99'),
          ratioRow(load, deliveredPerSecond, changed, floor),
        ];
      },
    ),
};

const closing: Shape = {
  name: 'closing',
  about: 'receivers that close each connection, 64 and 256 callers; beside keep-alive',
  run: (stage) =>
    atBothCallers(
      stage,
      usualClients,
      { name: 'closing', receiver: { closesConnections: true }, floorToo: true },
      (count, { usual, changed, floor }) => {
        const load = `${count} callers, receivers that close each connection`;
        return [
          ratioRow(load, cpuMs, changed, usual, { atMost: 1.5 }),
          ratioRow(load, deliveredPerSecond, changed, usual),
          ratioRow(load, deliveredPerSecond, changed, floor),
        ];
      },
    ),
};

interface Change {
  name: string;
  receiver: Partial<ReceiverBehaviour>;
  /** True if the floor's receivers behave like this too. */
  floorToo?: true;
  warmUpAtLeastMs?: number;
}

interface Sides {
  floor: Side;
  usual: Side;
  changed: Side;
}

/** Measures the floor, the service with the usual receivers and the service with changed ones, in turns. */
async function atBothCallers(
  stage: ShapeStage,
  clients: number,
  change: Change,
  makeRows: (callers: number, sides: Sides) => Row[],
): Promise<Row[]> {
  const rows: Row[] = [];
  const { warmUpAtLeastMs = 0, receiver } = change;
  const clientTokens = await stage.service.newClients(clients);
  const floorTokens = await stage.floor.newClients(clients);
  for (const count of [64, 256]) {
    const common = { pace: callers(count), warmUpAtLeastMs };
    const names = { floor: `floor-${count}`, usual: `usual-${count}`, changed: `${change.name}-${count}` };
    const sides = await stage.inTurns({
      [names.floor]: stage.load(stage.floor, {
        ...common,
        clientTokens: floorTokens,
        receiver: change.floorToo ? receiver : {},
      }),
      [names.usual]: stage.load(stage.service, { ...common, clientTokens }),
      [names.changed]: stage.load(stage.service, { ...common, clientTokens, receiver }),
    });
    const side = (key: keyof Sides, name: string): Side => ({
      name,
      rounds: sides[names[key]]?.rounds ?? [],
    });
    rows.push(
      ...makeRows(count, {
        floor: side('floor', 'floor'),
        usual: side('usual', 'usual'),
        changed: side('changed', change.name),
      }),
    );
  }
  return rows;
}

function sum(rounds: readonly Round[], value: (round: Round) => number | undefined): number {
  return rounds.reduce((n, round) => n + (value(round) ?? 0), 0);
}

export const receiverShapes: readonly Shape[] = [slow, refusing, closing];
