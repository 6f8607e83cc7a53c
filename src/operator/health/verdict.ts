/** Us or them, in one word and one sentence. */
import { type Colour, paint } from '../terminal/colour.js';
import { span } from '../terminal/moment.js';
import type { ClientHealth, Health, Situation } from './health.js';
import { type OwnHealth, slowRedisMs } from './ownHealth.js';
import { sweepInWords } from './sweepState.js';

export interface Verdict {
  who: 'fine' | 'us' | 'them';
  because: string;
}

const brokenNamed = 10;
/** The sweep runs every minute; the alert waits as long (deploy/prometheus/alerts.yml). */
const sweptWithinMs = 180_000;

/** `us`: the service fails to do something that it could do; `them`: only receivers prevent deliveries. */
export function judge(own: OwnHealth, { clients, broken }: Health): Verdict {
  const ours = [...ourFailures(own), ...ourBrokenKeys(broken), ...ourLateness(clients)];
  if (ours.length > 0) return { who: 'us', because: ours.join(' ') };
  const theirs = say(clients, {
    failing: 'fail',
    suspended: 'suspended',
    not_before: 'asked to wait (Retry-After)',
  });
  if (theirs !== '') return { who: 'them', because: `Endpoints: ${theirs}.` };
  const waiting = say(clients, {
    draining: 'draining a backlog',
    paused: 'paused by an operator',
    held: 'held, because their account is disabled',
    no_url: 'without a URL',
  });
  const because = 'Nothing is overdue and no endpoint fails.';
  return { who: 'fine', because: waiting === '' ? because : `${because} Clients: ${waiting}.` };
}

function ourFailures({ redisMs, redis, temporal, workers, sweep, sweptAt }: OwnHealth): string[] {
  const found: string[] = [];
  if (redisMs > slowRedisMs) found.push(`Redis takes ${span(redisMs)} to answer.`);
  if (redis !== 'ok') found.push(redis);
  if (temporal !== 'ok') found.push(temporal);
  if (workers === 0) found.push('No worker asks Temporal for work.');
  // The next worker creates an absent schedule; the line before says whether there is a worker.
  if (sweep?.kind === 'paused' || sweep?.kind === 'late') found.push(sweepInWords(sweep));
  else if (sweptAt !== undefined && Date.now() - sweptAt > sweptWithinMs)
    found.push(`No sweep has completed for ${span(Date.now() - sweptAt)}.`);
  return found;
}

function ourBrokenKeys(broken: readonly string[]): string[] {
  if (broken.length === 0) return [];
  return [`The keys of some clients are broken: ${broken.slice(0, brokenNamed).join(', ')}.`];
}

function ourLateness(clients: readonly ClientHealth[]): string[] {
  const late = clients.filter((c) => c.situation === 'late').sort((a, b) => b.overdueMs - a.overdueMs);
  const [latest] = late;
  if (latest === undefined) return [];
  const are = late.length === 1 ? '1 client is' : `${late.length} clients are`;
  return [
    `${are} owed something that could be sent and is not, for ${span(latest.overdueMs)} (${latest.clientToken}).`,
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

/** The first line of an answer. */
export function headline({ who, because }: Verdict): string {
  const [colour, words] = headings[who];
  return `${paint(colour, words)} ${because}`;
}

const headings: Record<Verdict['who'], [Colour, string]> = {
  fine: ['green', 'All is well.'],
  us: ['red', 'It is us.'],
  them: ['yellow', 'It is them.'],
};
