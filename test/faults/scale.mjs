/** Loaded into the service by `node --import`: a run of faults is over before the probes of production begin, or a list of it is full. */
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isMainThread } from 'node:worker_threads';

// A thread of workflows loads this file too, and has no settings.
if (isMainThread) {
  const file = join(dirname(realpathSync(process.argv[1] ?? '')), 'constants.js');
  const { constants, shared } = await import(pathToFileURL(file).href);
  constants.probeScheduleMs = [500, 1000, 2000];
  shared.listedAtMost = Number(process.env.FAULT_LISTED_AT_MOST ?? shared.listedAtMost);
}
