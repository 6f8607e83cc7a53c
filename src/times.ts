const shape =
  /^(\d{4}-\d\d-\d\d)(?:T(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|(60))(?:\.\d+)?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?)?$/i;

/**
 * Reads a time as RFC 3339 has it (section 5.6), or a day alone, which is its beginning in UTC. Date.parse takes more: a time without
 * a zone in that of the process, 31 February as 3 March, any text in parentheses.
 * @returns ms since 1970; for another text what is wrong, in words
 */
export function readTime(text: string): number | string {
  const [, day = '', leap, zone] = shape.exec(text) ?? [];
  if (day === '') {
    // In a query a + means a space.
    const hint = /:\d\d(\.\d+)? \d\d:\d\d$/.test(text)
      ? '; in a query the + of a time zone is written %2B'
      : '';
    return `must be a time such as 2026-01-31T12:00:00Z${hint}`;
  }
  const dayMs = Date.parse(`${day}T00:00:00Z`);
  if (Number.isNaN(dayMs) || !new Date(dayMs).toISOString().startsWith(day))
    return 'names a day that does not exist';
  if (text === day) return dayMs;
  if (zone === undefined) return 'has no time zone: add Z or an offset such as +01:00';
  if (leap === undefined) return Date.parse(text.toUpperCase());
  // Section 5.7: a leap second ends a month, in UTC.
  const ms = Date.parse(text.toUpperCase().replace(':60', ':59')) + 1000;
  return /-01T00:00:00/.test(new Date(ms).toISOString()) ? ms : 'names a second that does not exist';
}

/** A time to come, by two clocks: the steady one stands still while the machine is suspended, the other may be set. */
export interface Moment {
  steadyMs: number;
  wallMs: number;
}

export const momentIn = (ms: number): Moment => ({
  steadyMs: performance.now() + ms,
  wallMs: Date.now() + ms,
});

/** Returns whether one of the clocks says so. (`os.uptime` has both virtues; it reads a file, which takes 7 us.) */
export const isPast = ({ steadyMs, wallMs }: Moment) => performance.now() > steadyMs || Date.now() > wallMs;
