import type { Config } from '../config.js';

/** Reads from the settings where the platform is told notices; undefined: it is not. */
export function platformOf(config: Config): { url: string; secrets: readonly string[] } | undefined {
  const { NOTICES_URL: url, NOTICES_SIGNING_SECRET: secrets } = config;
  return url === undefined || secrets === undefined ? undefined : { url, secrets };
}
