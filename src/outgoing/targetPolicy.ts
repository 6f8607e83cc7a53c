import type { Config } from '../config.js';
import type { TargetPolicy } from './address.js';

/** Reads from the settings where notifications may go. @param ownPort another port of this machine that is the service's own */
export function targetPolicyOf(config: Config, ownPort?: number): TargetPolicy {
  return {
    allowHttp: config.ALLOW_HTTP_TARGETS,
    allowedCidrs: config.ALLOWED_TARGET_CIDRS,
    ownPorts: [
      config.PORT,
      config.ADMIN_PORT,
      ...config.OWN_PORTS,
      ...(ownPort === undefined ? [] : [ownPort]),
    ],
    ownAddresses: config.OWN_ADDRESSES,
  };
}
