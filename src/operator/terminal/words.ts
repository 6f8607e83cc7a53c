/** Times, amounts and errors as people read them. */

/** Writes a time for programs: ISO 8601, UTC. */
export function moment(atMs: number | undefined): string | undefined {
  return atMs === undefined || !Number.isFinite(atMs) ? undefined : new Date(atMs).toISOString();
}

/** Writes a time for people: `3 min ago`, `in 20 s`. */
export function fromNow(atMs: number | undefined, nowMs = Date.now()): string {
  if (atMs === undefined) return '';
  const apart = span(Math.abs(nowMs - atMs));
  return atMs > nowMs ? `in ${apart}` : `${apart} ago`;
}

/** `850 ms`, `42 s`, `17 min`, `5 h`, `3 d`. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${Math.round(ms / 1000)} s`;
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`;
  if (ms < 172_800_000) return `${Math.round(ms / 3_600_000)} h`;
  return `${Math.round(ms / 86_400_000)} d`;
}

/** Names a number of things: `1 client`, `2 clients`. */
export const amount = (n: number, one: string): string => `${n} ${n === 1 ? one : `${one}s`}`;

/** Writes the class of a receiver's last failure, and its status if it answered. */
export function lastErrorOf({ lastError, lastStatus }: { lastError?: string; lastStatus?: number }): string {
  return [lastError, lastStatus].filter((part) => part !== undefined).join(' ');
}
