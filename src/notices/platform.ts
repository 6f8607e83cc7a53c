import type { Config } from '../config.js';

/** Returns the platform's URL for notices and its secrets from the settings; undefined if there is none. */
export function platformOf(config: Config): { url: string; secrets: readonly string[] } | undefined {
  const { NOTICES_URL: url, NOTICES_SIGNING_SECRET: secrets } = config;
  return url === undefined || secrets === undefined ? undefined : { url, secrets };
}
