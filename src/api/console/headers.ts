import type { Step } from '../step.js';

/**
 * For every answer of the console: a page loads files of this service only, has no script in its source, and no other
 * site may frame it. `same-origin`, because with `no-referrer` a browser hides a form's Origin.
 */
export const consoleHeaders: Step = (ctx, next) => {
  ctx.set({
    'Content-Security-Policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
      "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    'X-Frame-Options': 'DENY',
    'X-Content-Type-Options': 'nosniff',
    'Referrer-Policy': 'same-origin',
    'Cross-Origin-Opener-Policy': 'same-origin',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Cache-Control': 'no-store',
  });
  return next();
};
