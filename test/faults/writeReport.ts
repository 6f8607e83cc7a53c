import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/running/projectDir.js';

/** Writes docs/reliability.md around the table and its figures. */
export async function writeReport(commands: readonly string[], text: string): Promise<void> {
  const made = `Made by ${commands.map((one) => `\`${one}\``).join(', ')} on ${new Date().toISOString().slice(0, 10)} (${cpus().length} cores, Node ${process.version}).`;
  await writeFile(join(projectDir, 'docs/reliability.md'), page(made, text));
}

const page = (made: string, text: string): string => `# Reliability

What happens when parts of the service fail. [Bad input](bad-input.md) is about what strangers, callers and receivers send.

${made}

The service runs as it ships, in separate processes: an API, a worker, Redis with \`appendfsync always\` and Temporal's
development server with its SQLite file flushed at every commit. Eight publishers send events for 5 clients and repeat
calls that got 503 or no answer; meanwhile a token is minted every 50 ms, and new clients are registered, each with
two URLs at once. Under this load one part after the other is broken and brought back. At the end every event that
was answered \`queued\` is looked for at the receiver by its id, every token is used, every registration looked up.

${text}

## Rows

- *\`kill -9\` ...*: at random moments, in random order. The process ends at once and is started again up to 0.3 s
  later. *receiver broken off*: its port is closed and every connection is cut, for up to 1.5 s.
- *..., in one process*: API and worker are one process, which begins attempts before their workflow; 96 publishers for
  20 clients.
- *... away*: the process (or the receiver's port) is down for that time.
- *line to ...*: a TCP proxy between the service and that one does it for 3 s. *Hangs* holds all bytes and passes them on
  afterwards. *Half open* forgets every connection for good without telling either side; only new ones get through
  afterwards, so the time is that in which the service notices: after 1.5 s for Redis, up to 45 s for Temporal.
- *rolling restart*: two APIs behind a balancer that asks for \`/readyz\`, two workers, ended by SIGTERM one after the
  other with \`SHUTDOWN_DELAY_SECONDS=1\`. No call failed, nothing arrived twice; the time is that of one restart.
- *none*: load without a fault. Memory and open files are sampled every second after warming up; the slope is that of
  the least-squares line, and includes Redis' records of every segment, token and client.

Beyond the table, the suite kills Redis right after its answers, tears and damages its append-only file, drops its last
second, and deletes all of Redis or of Temporal's store: \`test/faults/durability.test.ts\`, and
[operations.md](guides/operations.md#loss-of-a-store) says how each is recovered. Events that are lost, repeated or given two ids on
purpose are found.

## Columns

- *acknowledged*: events answered \`queued\` before or during the fault, since the one before it.
- *delivered*: received under their own \`webhook-id\`. *superseded*: a newer notification of the same asset took its
  place, and that one was received.
- *tokens*, *registrations*: given with 200 in that time. Of the two URLs of a client exactly one was told 200.
- *lost*: events that are neither delivered nor superseded, tokens that are refused, registrations that are not there.
- *duplicated*: received again under the same \`webhook-id\`; at most what was in flight. No event had two ids.
- *longest recovery*: from when the broken thing could be used again until an event sent after that was received.
- *503*, *no answer*, *slowest answer*: of the publishers' calls meanwhile. The slowest answer is of any kind.

## Commands

| command | breaks | takes about |
|---|---|---|
| \`npm run test:faults\` | the short form: 30 faults at random moments, outages of 1 s, a minute of soak | 10 minutes |
| \`npm run test:faults -- test/faults/{kill,deploy}.test.ts\` | of it the kills and the rolling restart: what \`.ci/run\` runs | 3 minutes |
| \`FAULT_FORM=long npm run test:faults\` | 300 faults at random moments, outages of 1 s, 30 s and 15 minutes, an hour of soak | 2.5 hours |

\`FAULT_REPORT=1\` beside it writes this page; \`FAULT_KEEP=file\` keeps a run, and \`FAULT_WITH=file,file\` puts kept ones before
the run that writes the page, so that the parts of the long form can run side by side. \`FAULT_KILLS\`, \`FAULT_OUTAGE_SECONDS\` (\`1,30,900\`) and
\`FAULT_SOAK_MINUTES\` set each by itself.

\`FAULT_OLD_DIST=../older/dist\` lets one of the two workers of the rolling restart begin as an older release, built in a
checkout of it; what releases of the past have begun is replayed by every \`npm test\` (\`test/workflows/replay.test.ts\`).

Short settings keep the run short: attempts after 0.5, 1, 2 and 4 s, probes after 0.5, 1 and 2 s, 2 s for an attempt.
`;
