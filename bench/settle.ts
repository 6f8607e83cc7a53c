import { monotonicMs } from './monotonicMs.js';
import { type Pids, usageOf } from './processUsage.js';

/** Of one core, for the service and its servers together: what they use with nothing to do, and a little more. */
const idleShare = 0.15;
const everyMs = 1000;
const patienceMs = 90_000;

/**
 * Waits until the service has nothing left to do, so that a round does not pay for the work that the one before it
 * left behind (retries, catch-up). Returns false when it still had after 90 s.
 */
export async function settle(pids: Pids): Promise<boolean> {
  const end = monotonicMs() + patienceMs;
  for (;;) {
    const before = usageOf(pids);
    const from = monotonicMs();
    await new Promise((resolve) => setTimeout(resolve, everyMs));
    const after = usageOf(pids);
    const now = monotonicMs();
    const cpuMs = Object.entries(after).reduce(
      (sum, [name, usage]) => sum + usage.cpuMs - (before[name]?.cpuMs ?? 0),
      0,
    );
    if (cpuMs / (now - from) < idleShare) return true;
    if (now > end) return false;
  }
}
