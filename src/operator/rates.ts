/** What one process of the service does per second, out of two readings of its metrics. */
import { setTimeout as sleep } from 'node:timers/promises';

export interface Rates {
  delivered_per_second: number;
  failed_attempts_per_second: number;
  tokens_per_second: number;
}

const apartMs = 2000;
const answerWithinMs = 2000;

/** null where there are no metrics to read. */
export async function readRates(adminUrl: string | undefined): Promise<Rates | null> {
  if (adminUrl === undefined) return null;
  try {
    const before = await read(adminUrl);
    const begun = performance.now();
    await sleep(apartMs);
    const after = await read(adminUrl);
    const seconds = (performance.now() - begun) / 1000;
    const rate = (name: string, labels = '') => {
      const risen = total(after, name, labels) - total(before, name, labels);
      return Math.round((Math.max(risen, 0) / seconds) * 10) / 10;
    };
    return {
      delivered_per_second: rate('asset_update_attempt_duration_seconds_count', 'outcome="delivered"'),
      failed_attempts_per_second: rate('asset_update_attempt_duration_seconds_count', 'outcome="failed"'),
      tokens_per_second: rate('asset_update_access_tokens_minted_total'),
    };
  } catch {
    return null;
  }
}

async function read(adminUrl: string): Promise<string[]> {
  const response = await fetch(`${adminUrl}/metrics`, { signal: AbortSignal.timeout(answerWithinMs) });
  if (!response.ok) throw new Error(`metrics answered ${response.status}`);
  return (await response.text()).split('\n');
}

function total(lines: readonly string[], name: string, labels: string): number {
  return lines
    .filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(labels))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}
