import { backfill } from './backfill.js';
import { backlog } from './backlog.js';
import { bounds } from './bounds.js';
import { claims } from './claims.js';
import { cluster } from './cluster.js';
import { curves } from './curves.js';
import { drains } from './drains.js';
import { kills } from './kills.js';
import { memory } from './memory.js';
import { origins } from './origins.js';
import { outage } from './outage.js';
import { owed } from './owed.js';
import { retention } from './retention.js';
import { slowClient } from './slowClient.js';
import type { Study } from './study.js';
import { tokenFlood } from './tokenFlood.js';

/** All studies, in the order of the documentation. */
export const studies: readonly Study[] = [
  owed,
  outage,
  slowClient,
  backfill,
  drains,
  bounds,
  kills,
  memory,
  retention,
  claims,
  cluster,
  curves,
  backlog,
  origins,
  tokenFlood,
];
