import { type Logger, pino } from 'pino';

export type { Logger };

/**
 * One JSON line per record on stderr-free stdout. What may hold a secret is never handed to the log;
 * the redaction list is the second fence for what slips through.
 */
export function createLogger(level: string, role: string): Logger {
  return pino({
    level,
    base: { role, pid: process.pid },
    timestamp: pino.stdTimeFunctions.isoTime,
    redact: {
      paths: [
        'access_token',
        'client_secret',
        'signing_secret',
        'authorization',
        '*.access_token',
        '*.client_secret',
        '*.signing_secret',
        '*.authorization',
        'err.body',
        'err.command',
        'err.previousErrors',
        'headers',
        '*.headers',
      ],
      censor: '[redacted]',
    },
  });
}
