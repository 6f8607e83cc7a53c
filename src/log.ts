import { type Logger, pino } from 'pino';

export type { Logger };

/** What may wait for a reader that is slow, or for a disk that is full; further lines are lost. */
const maxWaitingBytes = 1024 * 1024;
/** How long the end of the process waits for the reader. */
const flushWithinMs = 1000;

/**
 * Writes one JSON line per record to stdout. A full disk under it costs lines: pino alone would end the process, and
 * then wait for the disk. Values that may hold a secret are never passed to the log; the redaction list is a second
 * safeguard.
 */
export function createLogger(level: string, role: string): Logger {
  const secrets = ['access_token', 'client_secret', 'signing_secret', 'authorization', 'headers'];
  // With 0, `flush` does nothing.
  const minLength = 1;
  let flushEndsAt = Number.POSITIVE_INFINITY;
  const retryEAGAIN = () => performance.now() < flushEndsAt;
  // Node makes a pipe non-blocking. The end of the process would wait for a thread that is blocked in a write.
  void process.stdout;
  const out = pino.destination({ dest: 1, sync: false, minLength, maxLength: maxWaitingBytes, retryEAGAIN });
  const options = {
    level,
    base: { role, pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: {
      paths: [
        ...secrets.flatMap((name) => [name, `*.${name}`]),
        'err.body',
        'err.command',
        'err.previousErrors',
      ],
      censor: '[redacted]',
    },
  };
  const log = pino(options, out);
  const flushAll = out.flushSync.bind(out);
  const flushSync = () => {
    flushEndsAt = performance.now() + flushWithinMs;
    try {
      flushAll();
    } catch {
      // Nobody reads it.
    }
    flushEndsAt = Number.POSITIVE_INFINITY;
  };
  out.flushSync = flushSync;
  let lost = 0;
  out.on('drop', () => {
    lost++;
    // A line that is dropped tries no write by itself.
    out.flush();
  });
  out.on('error', () => {
    // At the end of the process it would try for ever.
    out.flushSync = () => undefined;
  });
  out.on('drain', () => {
    out.flushSync = flushSync;
    const lines = lost;
    lost = 0;
    if (lines > 0) log.warn({ lines }, 'lines of this log were lost: nothing took them');
  });
  return log;
}

export const messageOf = (err: unknown): string => (err instanceof Error ? err.message : String(err));
