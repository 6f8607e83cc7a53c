import type { Config } from '../config.js';
import type { TargetPolicy } from './address.js';

/** Where notifications may go, by the settings; `ports` are those of this service beside the ones that they name. */
export function targetPolicyOf(config: Config, ports: readonly number[] = []): TargetPolicy {
  return {
    allowHttp: config.ALLOW_HTTP_TARGETS,
    allowedCidrs: config.ALLOWED_TARGET_CIDRS,
    ownPorts: [config.PORT, config.ADMIN_PORT, ...config.OWN_PORTS, ...ports],
    ownAddresses: config.OWN_ADDRESSES,
  };
}
