import { burst } from './burst.js';
import { callerShapes } from './callers.js';
import { nothingNew } from './nothingNew.js';
import { rateShapes } from './rates.js';
import { receiverShapes } from './receivers.js';
import { roleShapes } from './roles.js';
import type { Shape } from './shape.js';

/** All shapes, in the order of the table. */
export const shapes: readonly Shape[] = [
  ...callerShapes,
  ...rateShapes,
  burst,
  nothingNew,
  ...receiverShapes,
  ...roleShapes,
];
