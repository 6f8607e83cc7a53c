import type { Step } from './composeSteps.js';

/** Isolates a page: it loads nothing, sends nothing, cannot be framed and sends no referrer to other sites. */
export const pageHeaders: Step = (ctx, next) => {
  ctx.set({
    'Content-Security-Policy':
      "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    'X-Frame-Options': 'DENY',
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'no-referrer',
  });
  return next();
};
