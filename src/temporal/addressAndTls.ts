import { readFileSync } from 'node:fs';
import type { TLSConfig } from '@temporalio/client';
import type { Config } from '../config.js';

/** What every connection to Temporal shares, of whatever kind; Temporal's standard client variables say it. */
export function addressAndTls(
  config: Config,
  address: string,
): { address: string; apiKey?: string; tls: TLSConfig | boolean } {
  const certificate = config.TEMPORAL_TLS_CLIENT_CERT_PATH;
  const key = config.TEMPORAL_TLS_CLIENT_KEY_PATH;
  const authority = config.TEMPORAL_TLS_SERVER_CA_CERT_PATH;
  const wanted = config.TEMPORAL_TLS ?? (certificate ?? authority ?? config.TEMPORAL_API_KEY) !== undefined;
  return {
    address,
    ...(config.TEMPORAL_API_KEY !== undefined && { apiKey: config.TEMPORAL_API_KEY }),
    tls: wanted && {
      ...(config.TEMPORAL_TLS_SERVER_NAME !== undefined && {
        serverNameOverride: config.TEMPORAL_TLS_SERVER_NAME,
      }),
      ...(authority !== undefined && { serverRootCACertificate: readFileSync(authority) }),
      ...(certificate !== undefined &&
        key !== undefined && {
          clientCertPair: { crt: readFileSync(certificate), key: readFileSync(key) },
        }),
    },
  };
}
