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

What happens when parts of the service fail. [Bad input](bad-input.md) covers harmful input from strangers, callers and receivers.

${made}

The service runs as it ships, in separate processes: an API, a worker, Redis with \`appendfsync always\` and Temporal's
development server, which flushes its SQLite file at every commit. Eight publishers send events for 5 clients and repeat
calls that got 503 or no answer. Meanwhile a token is minted every 50 ms, and new clients are registered, each with
two URLs at the same time. Under this load one part after the other is broken and restored. At the end the test looks for every
event that was answered \`queued\` at the receiver by its id, uses every token, and looks up every registration.

${text}

## Rows

- *\`kill -9\` ...*: at random moments, in random order. The process ends immediately and is started again up to 0.3 s
  later. *receiver broken off*: its port is closed and every connection is cut, for up to 1.5 s.
- *..., in one process*: API and worker are one process, which begins attempts as events arrive; 96 publishers for 20
  clients.
- *... away*: the process (or the receiver's port) is down for that time.
- *line to ...*: a TCP proxy between the service and that part causes the fault for 3 s. *Hangs* holds all bytes and passes them
  on afterwards. *Half open* drops every connection without telling either side. Only new connections get through
  afterwards, so the service must first notice: 1.5 s for Redis, up to 45 s for a worker and Temporal.
- *rolling restart*: two APIs behind a balancer that checks \`/readyz\`, and two workers, stopped by SIGTERM one after the
  other with \`SHUTDOWN_DELAY_SECONDS=1\`. No call failed, nothing arrived twice; the time is that of one restart.
- *none*: load without a fault. Memory and open files are sampled every second after the warm-up. The slope is that of
  the least-squares line, and includes Redis' records of every segment, token and client.

Beyond the table, the suite kills Redis right after its answers, tears and damages its append-only file, drops its last
second, and deletes all of Redis or of Temporal's store (\`test/faults/durability.test.ts\`).
[operations.md](guides/operations.md#loss-of-a-store) says how to recover from each. The suite also checks itself: it finds events
that are lost, repeated or given two ids on purpose.

## Columns

- *acknowledged*: events answered \`queued\` during the fault, or between the previous fault and this one.
- *delivered*: received under their own \`webhook-id\`. *superseded*: a newer notification of the same asset took its
  place, and that one was received.
- *tokens*, *registrations*: answered 200 in that time. Of the two URLs of a client exactly one was answered 200.
- *lost*: events that are neither delivered nor superseded, tokens that are refused, registrations that do not exist.
- *duplicated*: received again under the same \`webhook-id\`; at most those in flight. No event had two ids.
- *longest recovery*: from when the broken part could be used again until an event sent after that was received.
- *503*, *no answer*, *slowest answer*: of the publishers' calls meanwhile. The slowest answer may have any status.

## Commands

| command | breaks | takes about |
|---|---|---|
| \`npm run test:faults\` | the short form: 30 faults at random moments, outages of 1 s, a minute of soak | 10 minutes |
| \`npm run test:faults -- test/faults/{kill,deploy}.test.ts\` | the kills and the rolling restart of the short form, as in \`.ci/run\` | 3 minutes |
| \`FAULT_FORM=long npm run test:faults\` | 300 faults at random moments, outages of 1 s, 30 s and 15 minutes, an hour of soak | 2.5 hours |

With \`FAULT_REPORT=1\` the run writes this page. \`FAULT_KEEP=file\` keeps a run, and \`FAULT_WITH=file,file\` puts kept runs before
the run that writes the page, so that the parts of the long form can run side by side. \`FAULT_KILLS\`, \`FAULT_OUTAGE_SECONDS\` (\`1,30,900\`) and
\`FAULT_SOAK_MINUTES\` each set one size.

With \`FAULT_OLD_DIST=../older/dist\` one of the two workers of the rolling restart begins as an older release, built in a
checkout of it. Every \`npm test\` replays workflows that earlier releases began (\`test/workflows/replay.test.ts\`).

Short times keep the run short: attempts after 0.5, 1, 2 and 4 s, probes after 0.5, 1 and 2 s, a timeout of 2 s for an attempt.
`;
