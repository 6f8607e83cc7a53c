import type { StackOptions } from '../stack.js';
import { arrivalP99, cpuMs, deliveredPerSecond } from './quantity.js';
import { quantityRow, ratioRow } from './row.js';
import { callers, type Shape, usualClients } from './shape.js';

/** Compares other processes of the service with one process of `all`. */
function otherProcesses(
  name: string,
  load: string,
  options: Partial<StackOptions>,
  rateOfAll: number,
): Shape {
  return {
    name,
    about: `${load}; beside one process of \`all\``,
    async run(stage) {
      const other = await stage.openBeside(options);
      const on = async (target: typeof other) =>
        stage.load(target, { pace: callers(64), clientTokens: await target.newClients(usualClients) });
      const sides = await stage.inTurns({
        floor: await on(stage.floor),
        all: await on(stage.service),
        other: await on(other),
      });
      const named = { ...sides.other, name };
      return [
        ratioRow(load, deliveredPerSecond, named, sides.all, { atLeast: rateOfAll }),
        ratioRow(load, deliveredPerSecond, named, sides.floor),
        ratioRow(load, cpuMs, named, sides.floor),
        quantityRow(load, arrivalP99, named, sides.floor),
      ];
    },
  };
}

export const roleShapes: readonly Shape[] = [
  otherProcesses('two-processes', 'two processes of `all`, 64 callers', { split: false, apis: 2 }, 0.85),
  otherProcesses('apart', '1 API and 1 worker, 64 callers', { split: true }, 0.7),
];
