/** Drives Chromium, and checks what must hold for every page. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { type Browser, chromium, type Page } from 'playwright-core';
import { findOnPath } from '../../local/binaries.js';
import { opened } from '../servers.js';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core'), 'utf8');

/** Undefined where there is none on PATH. The sandbox needs what a container's root does not have; the pages are this project's own. */
export async function startChromium(): Promise<Browser | undefined> {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
  const executablePath = names.map(findOnPath).find((found) => found !== undefined);
  if (executablePath === undefined) return undefined;
  return await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
}

/** Opens a page for the running test, with a list of what the browser complains of. */
export async function openWatchedPage(browser: Browser, options: Parameters<Browser['newContext']>[0] = {}) {
  const context = opened(await browser.newContext(options));
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on(
    'console',
    (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()),
  );
  page.on('pageerror', (err) => complaints.push(String(err)));
  return { page, complaints };
}

export const screens = {
  wide: { viewport: { width: 1280, height: 800 } },
  dark: { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' },
  phone: { viewport: { width: 390, height: 844 } },
  'phone-dark': { viewport: { width: 390, height: 844 }, colorScheme: 'dark' },
  forced: { viewport: { width: 1280, height: 800 }, forcedColors: 'active' },
  /** 1280 px at 200 %. */
  zoomed: { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 },
} as const;

/** The screens on which pages are looked at: all, or those that SCREENS names. */
export function screensToVisit() {
  const named = process.env.SCREENS?.split(',');
  return Object.entries(screens).filter(([name]) => named === undefined || named.includes(name));
}

/** Opens a page, takes its picture again, and asserts that it keeps nobody out. */
export async function visit(page: Page, url: string, name: string): Promise<void> {
  await page.goto(url);
  await takePicture(page, name);
  await assertAccessible(page, `${url}, ${name}`);
}

/** Asserts that axe finds nothing, and that nothing scrolls sideways, with all details open. */
export async function assertAccessible(page: Page, where: string): Promise<void> {
  for (const summary of await page.locator('summary').all()) await summary.click();
  // From outside: the page itself would not load it.
  await page.evaluate(axe);
  const found = await page.evaluate(
    'axe.run().then(({ violations }) => violations.map(({ id, nodes }) => id + ": " + nodes.map((n) => n.html)))',
  );
  assert.deepEqual(found, [], where);
  const scrolls = await page.evaluate(
    '[...document.querySelectorAll("html, body, body *:not(.skip, thead, thead *)")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 || (e.scrollWidth > e.clientWidth && /auto|scroll/.test(getComputedStyle(e).overflowX))).map((e) => e.outerHTML.slice(0, 120))',
  );
  assert.deepEqual(scrolls, [], where);
}

/** Takes a picture again if PICTURES names a folder that has it, such as docs/images. */
async function takePicture(page: Page, name: string): Promise<void> {
  const path = join(process.env.PICTURES ?? '', `${name}.png`);
  if (process.env.PICTURES === undefined || !existsSync(path)) return;
  if (name.startsWith('console-notification-')) await page.locator('summary').click();
  await page.screenshot({ path, fullPage: true });
  await page.reload();
}
