import { monotonicMs, type Pids, readUsages } from './processUsage.js';

/** Share of one core of the service and its servers together: a little more than they use without work. */
const idleShare = 0.15;
const everyMs = 1000;
const patienceMs = 90_000;

/**
 * Waits until the service is idle, so that a round does not include the remaining work of the round before
 * (retries, catch-up). Returns false if the service is not idle after 90 s.
 */
export async function settle(pids: Pids): Promise<boolean> {
  const end = monotonicMs() + patienceMs;
  for (;;) {
    const before = readUsages(pids);
    const from = monotonicMs();
    await new Promise((resolve) => setTimeout(resolve, everyMs));
    const after = readUsages(pids);
    const now = monotonicMs();
    const cpuMs = Object.entries(after).reduce(
      (sum, [name, usage]) => sum + usage.cpuMs - (before[name]?.cpuMs ?? 0),
      0,
    );
    if (cpuMs / (now - from) < idleShare) return true;
    if (now > end) return false;
  }
}
