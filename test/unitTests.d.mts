export const otherTests: Readonly<Record<string, string>>;

/**
 * The files of `npm run test:unit`: every test file from which no way of imports leads to test/servers.ts, without
 * `otherTests`. Paths from the project folder.
 */
export const unitTests: readonly string[];
