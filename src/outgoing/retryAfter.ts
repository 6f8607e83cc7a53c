const dayMs = 24 * 3_600_000;
const weekday = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/;
const asctime = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/**
 * Reads `Retry-After` (RFC 9110 section 10.2.3): seconds or any of the three HTTP dates.
 * @returns milliseconds from now, 0 for a date that has passed, at most 24 h; undefined when unreadable
 */
export function retryAfterMs(value: string | string[] | undefined, nowMs: number): number | undefined {
  const text = (Array.isArray(value) ? value[0] : value)?.trim();
  if (text === undefined || text === '') return undefined;
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, dayMs);
  if (!weekday.test(text)) return undefined;
  const at = Date.parse(asctime.test(text) ? `${text} GMT` : text);
  return Number.isNaN(at) ? undefined : Math.min(Math.max(at - nowMs, 0), dayMs);
}
