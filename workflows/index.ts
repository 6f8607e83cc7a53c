/** Exports every workflow under the type name that the Temporal UI shows. */
export { catchUp as 'catch-up' } from './catchUp.js';
export { enrichment } from './enrichment.js';
export { sweep } from './sweep.js';
