import { secretsKey } from './secretsKey.js';

/** Further targets that only `npm start` and `npm run stack` allow beside public addresses. */
export const loopback = '127.0.0.0/8,::1/128';

/** Returns the service's settings for trying it out on this machine, added to those of the environment. */
export function localSettings(dir: string, ownPorts: readonly number[]): Record<string, string> {
  return {
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: [process.env.ALLOWED_TARGET_CIDRS, loopback].filter(Boolean).join(','),
    OWN_PORTS: [process.env.OWN_PORTS, ...ownPorts].filter(Boolean).join(','),
    SECRETS_KEY: process.env.SECRETS_KEY || secretsKey(dir),
  };
}
