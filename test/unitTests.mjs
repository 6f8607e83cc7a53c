import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { importsOf } from './imports.mjs';

/** Tests that need no server of the run and yet are no unit tests: a file or a folder, and why. */
export const otherTests = {
  'test/faults': 'starts and kills the whole service',
  'test/fuzz': 'starts the service',
  'test/stack': 'starts the servers of production',
  'test/deploy/helm': 'runs Helm where it was built',
  'test/examples': 'installs packages of other ecosystems',
  'test/console': 'starts a browser',
  'test/clients': 'starts the service',
  'test/local/start.test.ts': 'runs npm start',
  'test/outgoing/hostileReceivers.test.ts': 'waits until receivers are given up: 7 s',
  'test/outgoing/ours.test.ts': 'waits until names are given up: 4 s',
  'test/outgoing/places.test.ts': 'waits until idle connections are closed: 13 s',
  'test/workflows/replay.test.ts': 'needs the built bundle of workflows',
};

/** See unitTests.d.mts. */
export const unitTests = readdirSync(join(import.meta.dirname), { recursive: true })
  .map((name) => join('test', name))
  .filter((file) => file.endsWith('.test.ts') && !isOther(file) && !reaches(file, 'test/servers.ts'))
  .sort();

function isOther(file) {
  return Object.keys(otherTests).some((other) => file === other || file.startsWith(`${other}/`));
}

function reaches(file, wanted, seen = new Set()) {
  if (file === wanted) return true;
  if (seen.has(file) || !/\.m?ts$/.test(file)) return false;
  seen.add(file);
  return importsOf(file).some((imported) => reaches(imported, wanted, seen));
}
