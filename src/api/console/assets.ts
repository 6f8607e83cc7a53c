/** The files that pages load: a fixed list, read once. The address of each contains the hash of its content. */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Middleware } from 'koa';
import { ApiError } from '../apiError.js';
import { composeSteps } from '../step.js';
import { consoleHeaders } from './headers.js';

const { resolve } = createRequire(import.meta.url);
const own = (name: string) => join(import.meta.dirname, 'assets', name);
const javascript = 'text/javascript; charset=utf-8';
const css = 'text/css; charset=utf-8';

const assets = new Map(
  (
    [
      ['console.css', css, own('console.css')],
      ['console.js', javascript, own('console.js')],
      ['plots.js', javascript, own('plots.js')],
      ['icon.svg', 'image/svg+xml', own('icon.svg')],
      ['htmx.js', javascript, join(dirname(resolve('htmx.org')), 'htmx.min.js')],
      ['uplot.js', javascript, join(dirname(resolve('uplot')), 'uPlot.iife.min.js')],
      ['uplot.css', css, join(dirname(resolve('uplot')), 'uPlot.min.css')],
    ] as const
  ).map(([name, type, path]) => {
    const content = readFileSync(path);
    return [name as string, { type, content, version: hash('sha256', content, 'hex').slice(0, 12) }];
  }),
);

/** @throws Error for a file that is not on the list */
export function assetUrl(name: string): string {
  const found = assets.get(name);
  if (found === undefined) throw new Error(`${name} is no file of the console`);
  return `/console/assets/${name}?v=${found.version}`;
}

/** GET /console/assets/{name}: browsers keep it for a year, because changed content has a new address. */
export const assetEndpoint: Middleware[] = composeSteps(consoleHeaders, async (ctx) => {
  const { name = '' } = ctx.params;
  const found = assets.get(name);
  if (found === undefined) throw new ApiError('not_found', 'There is nothing at this address');
  ctx.set('Cache-Control', 'public, max-age=31536000, immutable');
  ctx.type = found.type;
  ctx.body = found.content;
});
