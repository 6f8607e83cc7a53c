import { readFileSync } from 'node:fs';
import type { TLSConfig } from '@temporalio/client';
import type { Config } from '../config.js';

/**
 * What every connection to Temporal shares, of whatever kind; Temporal's standard client variables say it.
 * @param serverName the name on its certificate, where that is not the address'
 */
export function addressAndTls(
  config: Config,
  address: string,
  serverName = config.TEMPORAL_TLS_SERVER_NAME,
): { address: string; apiKey?: string; tls: TLSConfig | boolean } {
  const certificate = config.TEMPORAL_TLS_CLIENT_CERT_PATH;
  const key = config.TEMPORAL_TLS_CLIENT_KEY_PATH;
  const authority = config.TEMPORAL_TLS_SERVER_CA_CERT_PATH;
  const wanted = config.TEMPORAL_TLS ?? (certificate ?? authority ?? config.TEMPORAL_API_KEY) !== undefined;
  return {
    address,
    ...(config.TEMPORAL_API_KEY !== undefined && { apiKey: config.TEMPORAL_API_KEY }),
    tls: wanted && {
      ...(serverName !== undefined && { serverNameOverride: serverName }),
      ...(authority !== undefined && { serverRootCACertificate: readFileSync(authority) }),
      ...(certificate !== undefined &&
        key !== undefined && {
          clientCertPair: { crt: readFileSync(certificate), key: readFileSync(key) },
        }),
    },
  };
}
