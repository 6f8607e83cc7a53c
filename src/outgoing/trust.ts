/** The certificate authorities that receivers' certificates may have. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import * as tls from 'node:tls';
import { certificatesIn } from '../addresses.js';
import { type Config, ConfigError } from '../config.js';

/**
 * Returns the trusted roots in PEM if the settings change those of Node, else undefined.
 * @throws ConfigError if the file cannot be read or has no certificate, or a root to leave out is not there
 */
export function readTrustedRoots(config: Pick<Config, 'TRUSTED_ROOTS_FILE' | 'DISTRUSTED_ROOTS'>) {
  const { TRUSTED_ROOTS_FILE: file, DISTRUSTED_ROOTS } = config;
  if (file === undefined && DISTRUSTED_ROOTS.length === 0) return undefined;
  const roots = file === undefined ? [...tls.rootCertificates] : readRoots(file);
  const unwanted = new Set(DISTRUSTED_ROOTS);
  const kept = roots.filter((root) => !unwanted.delete(fingerprintOf(root)));
  const [unknown] = unwanted;
  if (unknown !== undefined) {
    throw new ConfigError(
      `wrong settings:\n  DISTRUSTED_ROOTS: no trusted root has the fingerprint ${unknown}`,
    );
  }
  return kept;
}

function readRoots(file: string): string[] {
  try {
    return certificatesIn(readFileSync(file, 'utf8')).map(String);
  } catch {
    // The error's own text may quote the file.
    throw new ConfigError(
      'wrong settings:\n  TRUSTED_ROOTS_FILE: is no readable file of certificates in PEM',
    );
  }
}

/** SHA-256 in lower case, without colons. */
const fingerprintOf = (pem: string): string =>
  new X509Certificate(pem).fingerprint256.replaceAll(':', '').toLowerCase();
