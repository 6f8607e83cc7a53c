/** The desk in a real browser. */
import type { Browser } from 'playwright-core';
import type { Role } from '../../src/redis/records/operatorAccess.js';
import { openWatchedPage, startChromium } from '../console/chromium.js';
import { openForSuite } from '../servers.js';
import { newPersonLink, startDesk } from './scene.js';

type Options = Parameters<typeof openWatchedPage>[1];

/** Starts Chromium and a desk with a worker for a suite, and ends both after it. Without Chromium the suite is skipped. */
export function useDeskInBrowser(settings: Record<string, string> = {}) {
  let browser: Browser | undefined;
  before(async function () {
    browser = await startChromium();
    if (browser === undefined) this.skip();
  });
  after(() => browser?.close());
  const scene = openForSuite(async () => {
    const started = await startDesk(settings);
    await started.h.startWorker();
    return started;
  });

  const newPage = (options?: Options) => openWatchedPage(browser as Browser, options);
  return {
    scene,
    newPage,
    /** Opens a page of a person who has come in by a link. */
    async comeIn(role: Role, options?: Options) {
      const opened = await newPage(options);
      await opened.page.goto(await newPersonLink(scene, role, 'Ada'));
      await opened.page.waitForURL(`${scene.url}/desk`);
      return opened;
    },
  };
}
