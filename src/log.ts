import { type Logger, pino } from 'pino';

export type { Logger };

/**
 * Writes one JSON line per record to stdout. Values that may hold a secret are never passed to the log;
 * the redaction list is a second safeguard.
 */
export function createLogger(level: string, role: string): Logger {
  const secrets = ['access_token', 'client_secret', 'signing_secret', 'authorization', 'headers'];
  return pino({
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
  });
}

/** Returns the text of anything that was thrown. */
export function messageOf(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}
