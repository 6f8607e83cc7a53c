/** Temporal's standard client settings: its variables, which override a named profile of its file. */
import { accessSync, constants } from 'node:fs';
import type { TLSConfig } from '@temporalio/client';
import {
  type ClientConfigProfile,
  type ConfigDataSource,
  loadClientConfigProfile,
  toClientOptions,
} from '@temporalio/envconfig';

/** The options that every connection to Temporal shares. */
export interface TemporalConnectionOptions {
  address: string;
  apiKey?: string;
  tls: TLSConfig | boolean;
  /** Sent along with every call. */
  metadata?: Record<string, string>;
}

/** Address and namespace, if the environment or a profile sets them. */
export interface TemporalClientSettings {
  address?: string;
  namespace?: string;
  connection: Omit<TemporalConnectionOptions, 'address'>;
}

/** Whether the environment sets the server. */
export function namesTemporal(env: NodeJS.ProcessEnv): boolean {
  return [env.TEMPORAL_ADDRESS, env.TEMPORAL_PROFILE, env.TEMPORAL_CONFIG_FILE].some(Boolean);
}

/**
 * @param given the environment, without empty variables
 * @throws Error that names the setting, one line, never a value
 */
export function readClientSettings(given: Readonly<Record<string, string>>): TemporalClientSettings {
  const profile = readProfile(given);
  checkCertificates(profile);
  const { namespace, connectionOptions } = toClientOptions(profile);
  const { address, apiKey, tls, metadata } = connectionOptions;
  return {
    ...(address !== undefined && { address }),
    ...(namespace !== undefined && { namespace }),
    connection: {
      ...(typeof apiKey === 'string' && { apiKey }),
      tls: tls ?? false,
      ...(metadata !== undefined && { metadata: metadata as Record<string, string> }),
    },
  };
}

function readProfile(given: Readonly<Record<string, string>>): ClientConfigProfile {
  const file = given.TEMPORAL_CONFIG_FILE;
  if (file !== undefined) checkReadable('TEMPORAL_CONFIG_FILE', { path: file });
  // A user's file for the `temporal` command must not affect the service.
  const isNamed = file !== undefined || given.TEMPORAL_PROFILE !== undefined;
  let profile: ClientConfigProfile;
  try {
    profile = loadClientConfigProfile({ overrideEnvVars: { ...given }, disableFile: !isNamed });
  } catch (err) {
    // Its further lines quote the file.
    const [reason = ''] = (err instanceof Error ? err.message : String(err)).split('\n');
    throw new Error(`TEMPORAL_CONFIG_FILE, TEMPORAL_PROFILE, TEMPORAL_TLS_*: ${reason}`);
  }
  if (isNamed && profile.address === undefined) {
    throw new Error('TEMPORAL_PROFILE: neither the profile nor TEMPORAL_ADDRESS has an address');
  }
  return profile;
}

function checkCertificates({ tls }: ClientConfigProfile): void {
  checkReadable('TEMPORAL_TLS_CLIENT_CERT_PATH', tls?.clientCert);
  checkReadable('TEMPORAL_TLS_CLIENT_KEY_PATH', tls?.clientKey);
  checkReadable('TEMPORAL_TLS_SERVER_CA_CERT_PATH', tls?.serverCACert);
  if ((tls?.clientCert === undefined) !== (tls?.clientKey === undefined)) {
    throw new Error('TEMPORAL_TLS_CLIENT_CERT_*, TEMPORAL_TLS_CLIENT_KEY_*: each needs the other');
  }
}

function checkReadable(name: string, source: ConfigDataSource | undefined): void {
  if (source === undefined || !('path' in source)) return;
  try {
    accessSync(source.path, constants.R_OK);
  } catch (err) {
    throw new Error(`${name}: the file cannot be read (${(err as NodeJS.ErrnoException).code})`);
  }
}
