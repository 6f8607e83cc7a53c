/**
 * A round consists of seconds in which one endpoint is down and of seconds in which all are up. They take turns (down, up,
 * up, down), so that a machine that becomes slower affects both.
 */
const turnMs = 1000;

/** @param ms since the measured window began; negative in the warm-up */
export function isDownTurn(ms: number): boolean {
  const turn = Math.floor(ms / turnMs) & 3;
  return turn === 0 || turn === 3;
}

/** Returns how much of a window (ms) belongs to the turns with the endpoint down. */
export function downTurnsMs(windowMs: number): number {
  let sum = 0;
  for (let from = 0; from < windowMs; from += turnMs) {
    if (isDownTurn(from)) sum += Math.min(turnMs, windowMs - from);
  }
  return sum;
}
