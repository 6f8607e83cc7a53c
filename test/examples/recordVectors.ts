/**
 * Writes docs/reference/signature-vectors.json, the same bytes each time:
 *
 *     npx tsx test/examples/recordVectors.ts
 */
import { writeFileSync } from 'node:fs';
import { recordedVectors, recordedVectorsFile } from './recordedVectors.js';

writeFileSync(recordedVectorsFile, recordedVectors());
