import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { projectDir } from '../../src/embedded/projectDir.js';

/** Writes docs/reliability.md. */
export async function writeReport(table: string, footer: string): Promise<void> {
  const kills = process.env.FAULT_KILLS ? `FAULT_KILLS=${process.env.FAULT_KILLS} ` : '';
  const text = `# Reliability

Made by \`${kills}FAULT_REPORT=1 npm run test:faults\` on ${new Date().toISOString().slice(0, 10)} (${cpus().length} cores, Node ${process.version}).

Real processes: one API, one worker, Redis with \`appendfsync always\` and Temporal's development server with its SQLite
file flushed at every commit. Eight publishers send events for 5 clients with 20 assets each, and send again what got
503 or no answer. At random moments one part, or all of them, is broken and brought back. At the end every event that
was answered \`queued\` is looked for at the receiver.

${table}

${footer}

- *acknowledged*: events answered \`queued\` before or during the fault, since the one before it.
- *delivered*: received under their own \`webhook-id\`. *superseded*: a newer notification of the same asset took its
  place, and that one was received. *lost*: neither.
- *duplicated*: received again under the same \`webhook-id\`; at most what was in flight. No event had two ids.
- *longest recovery*: from the fault, its own downtime included, until an event sent after the return was received.

Short settings keep the run short: attempts after 0.5, 1, 2 and 4 s, probes after 0.5, 1 and 2 s, 2 s for an attempt.
The long form is \`FAULT_KILLS=200 npm run test:faults\`.
`;
  await writeFile(join(projectDir, 'docs/reliability.md'), text);
}
