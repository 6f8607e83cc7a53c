import { secretsKey } from './secretsKey.js';

/** Where what runs on this machine, and only that, lets notifications go beside public addresses. */
export const loopback = '127.0.0.0/8,::1/128';

/** The service's settings for trying it out on this machine, beside those that the environment has. */
export function localSettings(dir: string, ownPorts: readonly number[]): Record<string, string> {
  return {
    ALLOW_HTTP_TARGETS: 'true',
    ALLOWED_TARGET_CIDRS: [process.env.ALLOWED_TARGET_CIDRS, loopback].filter(Boolean).join(','),
    OWN_PORTS: [process.env.OWN_PORTS, ...ownPorts].filter(Boolean).join(','),
    SECRETS_KEY: process.env.SECRETS_KEY || secretsKey(dir),
  };
}
