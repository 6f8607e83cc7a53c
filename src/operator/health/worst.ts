/** The endpoints with problems, the worst first. */
import type { Colour } from '../terminal/colour.js';
import { lastErrorOf } from '../terminal/lastError.js';
import { fromNow, moment, span } from '../terminal/moment.js';
import { table } from '../terminal/table.js';
import type { ClientHealth, Situation } from './health.js';

const worstShown = 10;

/** The worst first. */
const severity: readonly Situation[] = [
  'late',
  'suspended',
  'failing',
  'not_before',
  'draining',
  'held',
  'paused',
  'no_url',
  'clear',
];

export function worstOf(clients: readonly ClientHealth[]): ClientHealth[] {
  return clients
    .filter(({ situation, endpoint }) => situation !== 'clear' || endpoint.failures > 0)
    .sort(
      (a, b) =>
        severity.indexOf(a.situation) - severity.indexOf(b.situation) || b.endpoint.owed - a.endpoint.owed,
    )
    .slice(0, worstShown);
}

export function shownClient({ clientToken, endpoint, situation, overdueMs }: ClientHealth) {
  return {
    client_token: clientToken,
    state: endpoint.state,
    situation,
    owed: endpoint.owed,
    owed_since: moment(endpoint.oldestOwedAt) ?? null,
    overdue_seconds: Math.round(overdueMs / 1000),
    next_attempt_at: moment(endpoint.nextAttemptAt) ?? null,
    failures: endpoint.failures,
    last_error: endpoint.lastError ?? null,
    last_status: endpoint.lastStatus ?? null,
    last_success_at: moment(endpoint.lastSuccessAt) ?? null,
  };
}

export function worstTable(clients: readonly ClientHealth[]): string {
  return table(
    ['WORST', 'SITUATION', 'OWED', 'SINCE', 'NEXT', 'FAILURES', 'LAST ERROR', 'LAST SUCCESS'],
    worstOf(clients).map((client) => [
      client.clientToken,
      { text: situationInWords(client), colour: colours[client.situation] },
      client.endpoint.owed,
      fromNow(client.endpoint.oldestOwedAt),
      fromNow(client.endpoint.nextAttemptAt),
      client.endpoint.failures,
      lastErrorOf(client.endpoint),
      fromNow(client.endpoint.lastSuccessAt),
    ]),
    'No endpoint has a problem.',
  );
}

function situationInWords({ situation, overdueMs }: ClientHealth): string {
  switch (situation) {
    case 'late':
      return `late by ${span(overdueMs)}`;
    case 'draining':
      return 'draining';
    case 'not_before':
      return 'asked to wait';
    case 'no_url':
      return 'no URL';
    case 'held':
      return 'account disabled';
    case 'clear':
      return 'retrying';
    default:
      return situation;
  }
}

const colours: Partial<Record<Situation, Colour>> = {
  late: 'red',
  suspended: 'yellow',
  failing: 'yellow',
  not_before: 'yellow',
  draining: 'cyan',
  held: 'dim',
  paused: 'dim',
  no_url: 'dim',
};
