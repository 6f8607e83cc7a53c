import type { Step } from './endpoint.js';

/** Keeps a page to itself: it loads nothing, sends nothing, stands in no frame and tells no other site where it was. */
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
