/** How long the known segments of an asset are kept. */

/** How long the record of an ended notification is kept. */
export const recordKeptDays = 14;

interface Settings {
  SEGMENT_RETENTION_DAYS?: number | undefined;
  OWED_RETENTION_DAYS: number;
}

/** Refuses a time after which an asset may still be owed, or the record of its last notification may still exist. */
export function wrongRetention({ SEGMENT_RETENTION_DAYS, OWED_RETENTION_DAYS }: Settings): string[] {
  const fewest = OWED_RETENTION_DAYS + recordKeptDays;
  if (SEGMENT_RETENTION_DAYS === undefined || SEGMENT_RETENTION_DAYS >= fewest) return [];
  return [`SEGMENT_RETENTION_DAYS: must be at least ${fewest} (OWED_RETENTION_DAYS + ${recordKeptDays})`];
}

/** Returns after how long without an event an asset's known segments are forgotten, s; 0: never. */
export function keepSegmentsSeconds({ SEGMENT_RETENTION_DAYS = 0 }: Settings): number {
  return Math.ceil(SEGMENT_RETENTION_DAYS * 86_400);
}
