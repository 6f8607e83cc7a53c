/** Shows a time as ISO 8601 in UTC. */
export const presentTime = (ms: number): string => new Date(ms).toISOString();

export const presentOptionalTime = (ms: number | undefined): string | null =>
  ms === undefined ? null : presentTime(ms);
