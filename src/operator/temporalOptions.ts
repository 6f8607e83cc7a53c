import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from '@temporalio/client';
import type { Config } from '../config.js';

/** A person waits: a server that is away is said to be so after 5 s. */
const connectTimeoutMs = 5000;

export function temporalOptions(config: Config, address: string): ConnectionOptions {
  const certificate = config.TEMPORAL_TLS_CLIENT_CERT_PATH;
  const key = config.TEMPORAL_TLS_CLIENT_KEY_PATH;
  const authority = config.TEMPORAL_TLS_SERVER_CA_CERT_PATH;
  const wanted = config.TEMPORAL_TLS ?? (certificate ?? authority ?? config.TEMPORAL_API_KEY) !== undefined;
  return {
    address,
    connectTimeout: connectTimeoutMs,
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
