import { outage } from './outage.js';
import { owed } from './owed.js';
import type { Study } from './study.js';

/** In the order of the documentation. */
export const studies: readonly Study[] = [owed, outage];
