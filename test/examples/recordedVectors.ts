import { join } from 'node:path';
import { toleranceSeconds, vectors } from './vectors.js';

export const recordedVectorsFile = join(import.meta.dirname, '../../docs/reference/signature-vectors.json');

/** 2026-11-22T12:00:00Z */
const recordedAt = 1_795_348_800;

/** The text of the file. */
export function recordedVectors(): string {
  const file = {
    about: 'Requests to a receiver, and whether it may take them. See docs/guides/receivers.md.',
    signature: 'Standard Webhooks 1.0.0: v1, HMAC-SHA256 of <webhook-id>.<webhook-timestamp>.<body>',
    tolerance_seconds: toleranceSeconds,
    vectors: vectors(recordedAt),
  };
  return `${JSON.stringify(file, null, 2)}\n`;
}
