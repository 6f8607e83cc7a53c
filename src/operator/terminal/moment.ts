/** Moments in time, as operators type and read them. */
import { InvalidArgumentError } from 'commander';

const unitMs: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Reads `2026-11-21`, `2026-11-21T14:00:00Z`, or how long ago: `90s`, `15m`, `2h`, `3d`, `1w`. Returns ms. */
export function parseMoment(text: string): number {
  const ago = /^(\d+(?:\.\d+)?)([smhdw])$/.exec(text);
  if (ago) return Date.now() - Number(ago[1]) * (unitMs[ago[2] ?? ''] ?? 0);
  const atMs = /^\d{4}-\d{2}-\d{2}/.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(atMs)) {
    throw new InvalidArgumentError('Give a date (2026-11-21T14:00:00Z) or how long ago (15m, 2h, 3d).');
  }
  return atMs;
}

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
