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

What breaks is below; what strangers, callers and receivers may send is in [bad-input.md](bad-input.md).

${made}

The service as it ships, in processes of its own: an API, a worker, Redis with \`appendfsync always\` and Temporal's
development server with its SQLite file flushed at every commit. Eight publishers send events for 5 clients and send
again what got 503 or no answer; beside them a token is asked for every 50 ms, and new clients are registered, each at
two URLs at once. One thing after the other is broken and brought back under this load. At the end every event that
was answered \`queued\` is looked for at the receiver by its id, every token is used, every registration looked up.

${text}

## What the rows are

- *\`kill -9\` ...*: at random moments, in random order; the process is gone at once and is started again up to 0.3 s
  later. *receiver broken off*: its port is closed and every connection cut, for up to 1.5 s.
- *..., in one process*: API and worker are one process, which begins attempts before their workflow; 96 publishers for
  20 clients.
- *... away*: the process (or the receiver's port) is gone for that time.
- *line to ...*: a TCP proxy between the service and that one does it for 3 s. *Hangs* keeps everything and passes it on
  afterwards. *Half open* forgets every connection for good without telling either side; only new ones get through
  afterwards, so the time is that in which the service notices: after 1.5 s for Redis, up to 45 s for Temporal.
- *rolling restart*: two APIs behind a balancer that asks for \`/readyz\`, two workers, ended by SIGTERM one after the
  other with \`SHUTDOWN_DELAY_SECONDS=1\`. No call failed, nothing arrived twice; the time is that of one restart.
- *none*: load without a fault. Memory and open files are sampled every second once all is warm; the slope is that of
  the least-squares line, and what Redis keeps of every segment, token and client is in it.

Beside the table the suite kills Redis at once after its answers, tears and damages its append-only file, takes its last
second, and takes away all of Redis or of Temporal's store: \`test/faults/durability.test.ts\`, and what comes back how in
[operations.md](operations.md). A lost, a repeated and a two-ids event put in on purpose are found.

## What the columns say

- *acknowledged*: events answered \`queued\` before or during the fault, since the one before it.
- *delivered*: received under their own \`webhook-id\`. *superseded*: a newer notification of the same asset took its
  place, and that one was received.
- *tokens*, *registrations*: given with 200 in that time. Of the two URLs of a client exactly one was told 200.
- *lost*: events that are neither delivered nor superseded, tokens that are refused, registrations that are not there.
- *duplicated*: received again under the same \`webhook-id\`; at most what was in flight. No event had two ids.
- *longest recovery*: from when the broken thing could be used again until an event sent after that was received.
- *503*, *no answer*, *slowest answer*: what publishers met meanwhile. The slowest answer is of any kind.

## Running it

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
