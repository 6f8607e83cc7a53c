/**
 * The seconds of a round in which one endpoint is down for the publishers, and those in which all are up. They take
 * turns (with, without, without, with) within one round: a machine that becomes slower during it does so for both.
 */
const turnMs = 1000;

/** @param ms since the measured window began; negative in the warm-up */
export function isDownTurn(ms: number): boolean {
  const turn = Math.floor(ms / turnMs) & 3;
  return turn === 0 || turn === 3;
}

/** How much of a window (ms) belongs to the turns with the endpoint down. */
export function downTurnsMs(windowMs: number): number {
  let sum = 0;
  for (let from = 0; from < windowMs; from += turnMs) {
    if (isDownTurn(from)) sum += Math.min(turnMs, windowMs - from);
  }
  return sum;
}
