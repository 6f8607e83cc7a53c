/** Us or them, in one word and one sentence. */
import type { ClientHealth, Situation } from './clientHealth.js';
import { span } from './moment.js';
import { type OwnHealth, slowRedisMs } from './ownHealth.js';
import { sweepInWords } from './sweepState.js';

export interface Verdict {
  who: 'fine' | 'us' | 'them';
  because: string;
}

/** `us`: something that we could do is not done; `them`: only receivers keep something from being delivered. */
export function judge(own: OwnHealth, clients: readonly ClientHealth[]): Verdict {
  const ours = [...ourFailures(own), ...ourLateness(clients)];
  if (ours.length > 0) return { who: 'us', because: ours.join(' ') };
  const theirs = say(clients, {
    failing: 'fail',
    suspended: 'suspended',
    not_before: 'asked to wait (Retry-After)',
  });
  if (theirs !== '') return { who: 'them', because: `Endpoints: ${theirs}.` };
  const waiting = say(clients, {
    draining: 'draining what they missed',
    paused: 'paused by an operator',
    held: 'held, as their account is disabled',
    no_url: 'without a URL',
  });
  const because = 'Nothing is overdue and no endpoint fails.';
  return { who: 'fine', because: waiting === '' ? because : `${because} Clients: ${waiting}.` };
}

function ourFailures({ redisMs, temporal, workers, sweep }: OwnHealth): string[] {
  const found: string[] = [];
  if (redisMs > slowRedisMs) found.push(`Redis takes ${span(redisMs)} to answer.`);
  if (temporal !== 'ok') found.push(temporal);
  if (workers === 0) found.push('No worker asks Temporal for work.');
  if (sweep !== undefined && sweep.kind !== 'running') found.push(sweepInWords(sweep));
  return found;
}

function ourLateness(clients: readonly ClientHealth[]): string[] {
  const late = clients.filter((c) => c.situation === 'late').sort((a, b) => b.overdueMs - a.overdueMs);
  const [latest] = late;
  if (latest === undefined) return [];
  const are = late.length === 1 ? '1 client is' : `${late.length} clients are`;
  return [
    `${are} owed what could be sent and is not, for ${span(latest.overdueMs)} (${latest.clientToken}).`,
  ];
}

/** `2 fail (owed 31), 1 suspended (owed 4)`. */
function say(clients: readonly ClientHealth[], words: Partial<Record<Situation, string>>): string {
  return Object.entries(words)
    .map(([situation, word]) => {
      const among = clients.filter((c) => c.situation === situation);
      const owed = among.reduce((sum, c) => sum + c.endpoint.owed, 0);
      return among.length === 0 ? '' : `${among.length} ${word} (owed ${owed})`;
    })
    .filter((part) => part !== '')
    .join(', ');
}
