/** Serves the description as a page: Swagger UI from its npm package, nothing from other sites (docs/dependencies.md). */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { errorCodes, errors } from '../../http/errors.js';
import { packedFile } from '../../web/files.js';
import { html } from '../../web/html.js';
import { declareCall } from '../call.js';

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

const pageFile = packedFile('html', () => page);

export const unchanged = { 304: { what: 'As it was answered with the ETag in If-None-Match.' } };

export const getDocsCall = declareCall({
  route: 'GET /docs',
  summary: 'Show this description as a page',
  description: 'Its files are under `/docs/`; it loads nothing from elsewhere.',
  result: { what: 'The page.', type: 'text/html' },
  otherResults: unchanged,
  codes: ['temporarily_unavailable'],
  answer: (_, { ctx }) => pageFile(ctx),
});

const packaged = createRequire(import.meta.url);
const fromPackage = (name: string) => () => readFile(packaged.resolve(`swagger-ui-dist/${name}`));

/** GET /docs/...: every file that the page loads, and the page of the errors. */
export const docsFiles = {
  '/docs/swagger-ui.css': packedFile('css', fromPackage('swagger-ui.css')),
  '/docs/swagger-ui-bundle.js': packedFile('js', fromPackage('swagger-ui-bundle.js')),
  '/docs/page.css': packedFile('css', () => pageStyle),
  '/docs/page.js': packedFile('js', () => pageScript),
  '/docs/errors': packedFile('html', () => errorsPage),
  '/docs/errors.css': packedFile('css', () => errorsStyle),
};

/** Explains each code of the catalogue, at the address that the `type` of an error has. */
const errorsPage = html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Errors</title><link rel="icon" href="data:,"><link rel="stylesheet" href="/docs/errors.css"></head><body><h1>Errors</h1>
${errorCodes.map((code) => {
  const { status, meaning, remedy } = errors[code];
  return html`<section id="${code}"><h2><code>${code}</code> ${status}</h2><p>${meaning}</p><p>${remedy}</p></section>
`;
})}</body></html>
`.text;

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
