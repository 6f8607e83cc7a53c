import type { TLSConfig } from '@temporalio/client';
import { loadClientConnectConfig } from '@temporalio/envconfig';

/** The options that every connection to Temporal shares. */
export interface TemporalConnectionOptions {
  address: string;
  apiKey?: string;
  tls: TLSConfig | boolean;
  /** Sent along with every call. */
  metadata?: Record<string, string>;
}

/**
 * Reads Temporal's own variables (`TEMPORAL_*`) with Temporal's library: its connection, or a profile of its file.
 * @param given the environment, without empty variables
 * @throws Error one line, never a value
 */
export function readTemporalVariables(given: Record<string, string>): {
  namespace: string | undefined;
  connection: TemporalConnectionOptions;
} {
  // The library reads any other text as false: a key would be sent without TLS.
  if (!/^(true|false|1|0)$/.test(given.TEMPORAL_TLS ?? 'true')) {
    throw new Error('TEMPORAL_TLS: must be true or false');
  }
  // A user's file for the `temporal` command must not affect the service.
  const disableFile = given.TEMPORAL_CONFIG_FILE === undefined && given.TEMPORAL_PROFILE === undefined;
  try {
    const { namespace, connectionOptions } = loadClientConnectConfig({ overrideEnvVars: given, disableFile });
    const {
      address = '127.0.0.1:7233',
      apiKey,
      tls = false,
      metadata,
    } = connectionOptions as Partial<TemporalConnectionOptions>;
    return { namespace, connection: { address, apiKey, tls, metadata } };
  } catch (err) {
    throw new Error(`TEMPORAL_*: ${reasonOf(err as NodeJS.ErrnoException)}`);
  }
}

/** The library's further lines quote the file, and an error of the file system shows its path. */
function reasonOf({ code, syscall, message }: NodeJS.ErrnoException): string {
  return syscall === undefined ? (message.split('\n')[0] ?? '') : `a file cannot be read (${code})`;
}
