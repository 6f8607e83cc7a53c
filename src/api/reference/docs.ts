import type { Middleware } from 'koa';
import { endpoint } from '../endpoint.js';
import { pageHeaders } from '../pageHeaders.js';
import { openapi } from './openapi.js';

/** GET /docs: the OpenAPI description as one page that loads nothing. */
export const docsEndpoint: Middleware[] = endpoint(pageHeaders, async (ctx) => {
  ctx.type = 'html';
  ctx.body = page;
});

interface Operation {
  summary: string;
  security?: unknown;
  parameters?: readonly { name: string; in: string; description?: string; required?: boolean }[];
  requestBody?: { content: Record<string, unknown> };
  responses: Record<string, { description: string; content?: unknown }>;
}

function renderOperation(method: string, path: string, operation: Operation): string {
  const parameters = (operation.parameters ?? []).map(
    (p) =>
      `<tr><td><code>${escaped(p.name)}</code></td><td>${p.in}${p.required ? ', required' : ''}</td><td>${escaped(p.description ?? '')}</td></tr>`,
  );
  const bodies = Object.entries(operation.requestBody?.content ?? {}).map(
    ([type, content]) => `<h4>Body: ${escaped(type)}</h4>${json(content)}`,
  );
  const answers = Object.entries(operation.responses).map(
    ([status, a]) =>
      `<details><summary><b>${status}</b> ${escaped(a.description)}</summary>${a.content ? json(a.content) : ''}</details>`,
  );
  return `<section><h3><code>${method.toUpperCase()} ${escaped(path)}</code></h3><p>${escaped(operation.summary)}${operation.security ? ' <i>(access token)</i>' : ''}</p>
${parameters.length > 0 ? `<table>${parameters.join('')}</table>` : ''}${bodies.join('')}${answers.join('\n')}</section>`;
}

const json = (value: unknown): string => `<pre>${escaped(JSON.stringify(value, null, 2))}</pre>`;

const escaped = (value: string): string =>
  value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

const operations = Object.entries(openapi.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) =>
    renderOperation(method, path, operation as unknown as Operation),
  ),
);

const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(openapi.info.title)}</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
section { border-top: 1px solid #ccc; margin-top: 1.5rem; }
td { padding: 0.1rem 1rem 0.1rem 0; vertical-align: top; }
pre { background: #f4f4f4; padding: 0.5rem; overflow: auto; font-size: 13px; }
</style></head><body>
<h1>${escaped(openapi.info.title)}</h1>
<p>${escaped(openapi.info.description)} The same for programs: <a href="/openapi.json">/openapi.json</a>.</p>
${operations.join('\n')}
<section><h2>Schemas</h2>
${Object.entries(openapi.components.schemas)
  .map(([name, schema]) => `<details><summary><code>${name}</code></summary>${json(schema)}</details>`)
  .join('\n')}
</section></body></html>
`;
