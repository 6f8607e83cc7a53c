/** Returns the scheme and host of a receiver's URL, the part that many may see: its path and query may hold a secret. */
export const originOf = (url: string): string => new URL(url).origin;
