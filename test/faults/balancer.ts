import { pause } from './pause.js';

/** Chooses among several servers as a load balancer does: in turn, of those whose last /readyz was 200. */
export interface Balancer {
  choose(): string;
  isReady(url: string): boolean;
  stop(): Promise<void>;
}

export const askedEveryMs = 200;

export async function startBalancer(urls: readonly string[]): Promise<Balancer> {
  const ready = new Set<string>();
  let turn = 0;
  let stopped = false;

  async function ask(url: string): Promise<void> {
    const ok = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2000) }).then(
      async (response) => {
        await response.body?.cancel();
        return response.ok;
      },
      () => false,
    );
    if (ok) ready.add(url);
    else ready.delete(url);
  }

  async function askAlways(url: string): Promise<void> {
    while (!stopped) {
      await ask(url);
      await pause(askedEveryMs);
    }
  }

  await Promise.all(urls.map(ask));
  const asking = urls.map(askAlways);
  return {
    choose() {
      const able = urls.filter((url) => ready.has(url));
      const url = able[turn++ % able.length] ?? urls[0];
      if (url === undefined) throw new Error('nothing to choose from');
      return url;
    },
    isReady: (url) => ready.has(url),
    async stop() {
      stopped = true;
      await Promise.all(asking);
    },
  };
}
