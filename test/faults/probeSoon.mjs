/** Loaded into the service by `node --import`: a run of faults is over before the probes of production begin. */
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const file = join(dirname(realpathSync(process.argv[1] ?? '')), 'constants.js');
const { constants } = await import(pathToFileURL(file).href);
constants.probeScheduleMs = [500, 1000, 2000];
