import { arrivalP99, cpuMs, deliveredPerSecond } from './quantity.js';
import { quantityRow, ratioRow } from './row.js';
import { callers, type Shape, usualClients } from './shape.js';

interface Goals {
  rate: number;
  cpu: number;
  p99Ms: number;
}

function singleEvents(count: number, goals: Goals): Shape {
  return {
    name: `callers-${count}`,
    about: `${count} callers with single events`,
    run: (stage) => besideFloor(stage, `${count} callers, single events`, count, goals),
  };
}

const batches: Shape = {
  name: 'batches',
  about: '16 callers with batches of 100, each batch of one client; the floor has 256 callers',
  run: (stage) =>
    besideFloor(
      stage,
      '16 callers, batches of 100 of one client',
      256,
      { rate: 0.7, cpu: 2, p99Ms: 1000 },
      { callers: 16, batchSize: 100 },
    ),
};

async function besideFloor(
  stage: Parameters<Shape['run']>[0],
  load: string,
  floorCallers: number,
  goals: Goals,
  own: { callers: number; batchSize: number } = { callers: floorCallers, batchSize: 1 },
) {
  const { floor, service } = await stage.inTurns({
    floor: stage.load(stage.floor, {
      pace: callers(floorCallers),
      clientTokens: await stage.floor.newClients(usualClients),
    }),
    service: stage.load(stage.service, {
      pace: callers(own.callers),
      clientTokens: await stage.service.newClients(usualClients),
      batchSize: own.batchSize,
      eventsPerTurn: own.batchSize,
    }),
  });
  return [
    ratioRow(load, deliveredPerSecond, service, floor, { atLeast: goals.rate }),
    ratioRow(load, cpuMs, service, floor, { atMost: goals.cpu }),
    quantityRow(load, arrivalP99, service, floor, { atMost: goals.p99Ms }),
  ];
}

export const callerShapes: readonly Shape[] = [
  singleEvents(64, { rate: 0.5, cpu: 2.4, p99Ms: 120 }),
  singleEvents(256, { rate: 0.6, cpu: 2, p99Ms: 250 }),
  batches,
];
