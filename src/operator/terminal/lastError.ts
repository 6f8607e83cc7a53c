/** Writes the class of a receiver's last failure, and its status if it answered. */
export function lastErrorOf({ lastError, lastStatus }: { lastError?: string; lastStatus?: number }): string {
  return [lastError, lastStatus].filter((part) => part !== undefined).join(' ');
}
