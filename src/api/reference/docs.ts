/** Serves the description as a page: Swagger UI from its npm package, nothing from other sites (docs/dependencies.md). */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Middleware } from 'koa';
import { type Html, html } from '../console/html.js';
import { endpoint } from '../endpoint.js';
import { errorCodes, errors } from '../errors.js';
import { composeSteps, type Step } from '../step.js';

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

/** Allows the files of this page and calls of this service: no inline script or style, no eval. */
const pagePolicy: Step = (ctx, next) => {
  ctx.set(
    'Content-Security-Policy',
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  );
  return next();
};

const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Asset update service</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css"><link rel="stylesheet" href="/docs/page.css">
<script src="/docs/swagger-ui-bundle.js" defer></script><script src="/docs/page.js" defer></script>
</head><body><div id="reference"></div>
<noscript>This page needs JavaScript. The same for programs: <a href="/openapi.json">/openapi.json</a></noscript>
</body></html>
`;

export const docsEndpoint = endpoint({
  method: 'get',
  path: '/docs',
  operationId: 'getDocs',
  tag: 'Service',
  summary: 'Show this description as a page',
  description: 'Its files are under `/docs/`; it loads nothing from elsewhere.',
  answers: { 200: { what: 'The page.', type: 'text/html' } },
  codes: [],
  steps: () => [
    pageHeaders,
    pagePolicy,
    (ctx) => {
      ctx.type = 'html';
      ctx.body = page;
    },
  ],
});

const packaged = createRequire(import.meta.url);
const fromPackage = (name: string) => () => readFile(packaged.resolve(`swagger-ui-dist/${name}`));

/** Every file that the page loads. */
const files: Record<string, { type: string; read: () => Promise<Buffer> }> = {
  '/docs/swagger-ui.css': { type: 'css', read: fromPackage('swagger-ui.css') },
  '/docs/swagger-ui-bundle.js': { type: 'js', read: fromPackage('swagger-ui-bundle.js') },
  '/docs/errors': { type: 'html', read: async () => Buffer.from(errorsPage) },
  '/docs/errors.css': { type: 'css', read: async () => Buffer.from(errorsStyle) },
  '/docs/page.css': { type: 'css', read: async () => Buffer.from(pageStyle) },
  '/docs/page.js': { type: 'js', read: async () => Buffer.from(pageScript) },
};

/** Explains each code of the catalogue, at the address that the `type` of an error has. */
const errorsPage = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Errors</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/errors.css"></head><body><h1>Errors</h1>
${errorCodes.map((code) => explained(code))}</body></html>
`.text;

function explained(code: (typeof errorCodes)[number]): Html {
  const { status, meaning, remedy } = errors[code];
  return html`<section id="${code}"><h2><code>${code}</code> ${status}</h2><p>${meaning}</p><p>${remedy}</p></section>
`;
}

/** GET /docs/...: the files of the page, by path. */
export const docsFileEndpoints = Object.entries(files).map(
  ([path, { type, read }]): [string, Middleware[]] => [
    path,
    composeSteps(pageHeaders, pagePolicy, answerFile(type, read)),
  ],
);

/** Answers with a file, compressed once, at its first request: compression takes 60 ms of CPU. */
export function answerFile(type: string, read: () => Promise<Buffer>): Step {
  let packed: ReturnType<typeof pack> | undefined;
  return async (ctx) => {
    packed ??= pack(read).catch((err: unknown) => {
      packed = undefined;
      throw err;
    });
    const { plain, zipped, etag } = await packed;
    ctx.type = type;
    ctx.etag = etag;
    ctx.set('Cache-Control', 'no-cache');
    ctx.vary('Accept-Encoding');
    ctx.status = 200;
    if (ctx.fresh) {
      ctx.status = 304;
    } else if (ctx.acceptsEncodings('gzip', 'identity') === 'gzip') {
      ctx.set('Content-Encoding', 'gzip');
      ctx.body = zipped;
    } else {
      ctx.body = plain;
    }
  };
}

async function pack(read: () => Promise<Buffer>) {
  const plain = await read();
  const etag = createHash('sha256').update(plain).digest('base64url').slice(0, 22);
  return { plain, zipped: await promisify(gzip)(plain), etag };
}

/** Shows the description, in the reader's preferred colour scheme. */
const pageScript = `
const dark = matchMedia('(prefers-color-scheme: dark)');
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
dark.addEventListener('change', follow);
follow();
SwaggerUIBundle({
  url: '/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  // Its default asks a server of a third party.
  validatorUrl: null,
});
`;

const errorsStyle = `
body { max-width: 45rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 sans-serif; color-scheme: light dark; }
h2 { font-size: 1rem; }
:target { outline: 2px solid; outline-offset: 0.5rem; }
`;

/** Hides the column of links, which is empty. */
const pageStyle = `
body { margin: 0; }
.swagger-ui .wrapper { max-width: 70rem; }
.swagger-ui .info { margin: 2rem 0 1rem; }
.swagger-ui .response-col_links { display: none; }
.dark-mode .swagger-ui table.headers td { color: #e4e6e6; }
.swagger-ui .opblock-description p { max-width: 45rem; }
`;
