import type { Config } from '../config.js';
import type { TargetPolicy } from './address.js';

/** Reads from the settings where notifications may go. */
export function targetPolicyOf(config: Config): TargetPolicy {
  return {
    allowHttp: config.ALLOW_HTTP_TARGETS,
    allowedCidrs: config.ALLOWED_TARGET_CIDRS,
    ownPorts: [config.PORT, config.ADMIN_PORT, ...config.OWN_PORTS],
    ownAddresses: config.OWN_ADDRESSES,
  };
}
