import type { ClientToken } from '../../ids.js';
import { checkTarget } from '../../outgoing/target.js';
import { targetPolicyOf } from '../../outgoing/targetPolicy.js';
import {
  type Endpoint,
  getEndpoint,
  getEndpoints,
  resumeEndpoint,
  setPaused,
} from '../../redis/records/endpoint.js';
import {
  changeRegistration,
  getRegistration,
  listRegistrations,
  type Registration,
  resetRegistration,
} from '../../redis/records/registrations.js';
import { urlWithoutQuery } from '../../urlWithoutQuery.js';
import type { Operator } from '../operator.js';
import { Refused } from '../refused.js';
import { requireClient } from '../requireClient.js';
import { lastErrorOf } from '../terminal/lastError.js';
import { fromNow, moment } from '../terminal/moment.js';
import { facts, table } from '../terminal/table.js';

export async function registrationShow(operator: Operator, token: ClientToken): Promise<void> {
  await requireClient(operator, token);
  const found = await getRegistration(await operator.db(), token);
  if (found === undefined) throw new Refused(`${token} has no URL.`);
  const endpoint = await getEndpoint(await operator.db(), token);
  operator.answer(present(found, endpoint), () =>
    facts({
      client: token,
      url: found.url,
      state: stateInWords(endpoint),
      since: endpoint.lastChange && `${fromNow(endpoint.lastChange.atMs)}: ${endpoint.lastChange.why}`,
      registered: moment(found.registeredAtMs),
      owed: endpoint.owed,
      'owed since': fromNow(endpoint.oldestOwedAt),
      'last success': fromNow(endpoint.lastSuccessAt),
      'last failure': fromNow(endpoint.lastFailureAt),
      'last error': lastErrorOf(endpoint),
      'next attempt': fromNow(endpoint.nextAttemptAt),
      'in flight': endpoint.inFlight,
    }),
  );
}

export async function registrationList(
  operator: Operator,
  { state }: { state?: Endpoint['state'] },
): Promise<void> {
  const db = await operator.db();
  const found = await listRegistrations(db);
  const endpoints = await getEndpoints(
    db,
    found.map((registration) => registration.clientToken),
  );
  const rows = found
    .map((registration, i) => ({ registration, endpoint: endpoints[i] as Endpoint }))
    .filter(({ endpoint }) => state === undefined || endpoint.state === state);
  operator.answer(
    rows.map((row) => present(row.registration, row.endpoint)),
    () =>
      table(
        ['CLIENT', 'STATE', 'OWED', 'SINCE', 'LAST SUCCESS', 'LAST ERROR', 'URL'],
        rows.map(({ registration: r, endpoint: e }) => [
          r.clientToken,
          stateInWords(e),
          e.owed,
          fromNow(e.oldestOwedAt),
          fromNow(e.lastSuccessAt),
          lastErrorOf(e),
          r.url,
        ]),
        state === undefined ? 'Nothing is registered.' : `No registration is ${state}.`,
      ),
  );
}

export async function registrationReset(operator: Operator, token: ClientToken): Promise<void> {
  await requireClient(operator, token);
  const reset = await operator.change((db) => resetRegistration(db, token));
  if (reset === undefined) throw new Refused(`${token} has no URL.`);
  await operator.record({
    what: 'registration reset',
    target: token,
    before: { url: urlWithoutQuery(reset.removed_url) },
    after: { url: null, owed: reset.owed },
  });
  await operator.wake(token);
  const answer = { client_token: token, removed_url: reset.removed_url, owed: reset.owed };
  operator.answer(answer, () => facts(answer));
}

export async function registrationChange(
  operator: Operator,
  token: ClientToken,
  { url }: { url: string },
): Promise<void> {
  await requireClient(operator, token);
  await checkTarget(url, targetPolicyOf(operator.config()));
  const changed = await operator.change((db) => changeRegistration(db, token, url));
  if (changed === undefined) throw new Refused(`${token} has no URL to change; its publisher registers one.`);
  await operator.record({
    what: 'registration change',
    target: token,
    before: { url: urlWithoutQuery(changed.previous_url) },
    after: { url: urlWithoutQuery(changed.url) },
  });
  await operator.wake(token);
  const answer = { client_token: token, previous_url: changed.previous_url, url: changed.url };
  operator.answer(answer, () => facts(answer));
}

export async function registrationPause(operator: Operator, token: ClientToken): Promise<void> {
  await requireClient(operator, token);
  const before = await getEndpoint(await operator.db(), token);
  await operator.change((db) => setPaused(db, token, true));
  await recordSwitch(operator, token, 'pause', before);
}

export async function registrationResume(operator: Operator, token: ClientToken): Promise<void> {
  await requireClient(operator, token);
  const before = await getEndpoint(await operator.db(), token);
  await operator.change(async (db) => {
    await setPaused(db, token, false);
    await resumeEndpoint(db, token);
  });
  await recordSwitch(operator, token, 'resume', before);
}

async function recordSwitch(
  operator: Operator,
  token: ClientToken,
  verb: 'pause' | 'resume',
  before: Endpoint,
): Promise<void> {
  const after = await getEndpoint(await operator.db(), token);
  await operator.record({
    what: `registration ${verb}`,
    target: token,
    before: { state: before.state },
    after: { state: after.state },
  });
  await operator.wake(token);
  const answer = {
    client_token: token,
    previous_state: before.state,
    state: after.state,
    owed: after.owed,
  };
  operator.answer(answer, () => {
    const was = after.state === before.state ? '' : ` (was ${before.state})`;
    return `${token} is ${after.state}${was}; owed: ${after.owed}.${whatFollows(verb, after)}`;
  });
}

function present(registration: Registration, endpoint: Endpoint) {
  return {
    client_token: registration.clientToken,
    account_id: registration.accountId,
    url: registration.url,
    state: endpoint.state,
    held: endpoint.held,
    state_since: moment(endpoint.lastChange?.atMs) ?? null,
    state_reason: endpoint.lastChange?.why ?? null,
    registered_at: moment(registration.registeredAtMs) ?? null,
    owed: endpoint.owed,
    owed_since: moment(endpoint.oldestOwedAt) ?? null,
    last_success_at: moment(endpoint.lastSuccessAt) ?? null,
    last_failure_at: moment(endpoint.lastFailureAt) ?? null,
    last_error: endpoint.lastError ?? null,
    last_status: endpoint.lastStatus ?? null,
    next_attempt_at: moment(endpoint.nextAttemptAt) ?? null,
    in_flight: endpoint.inFlight,
  };
}

function stateInWords(endpoint: Endpoint): string {
  return endpoint.held ? `${endpoint.state} (account disabled)` : endpoint.state;
}

function whatFollows(verb: 'pause' | 'resume', { held, state }: Endpoint): string {
  if (held) return ' Its account is disabled, so nothing is sent.';
  if (verb === 'pause' || state !== 'failing') return '';
  return ' A probe goes out now; once it succeeds, the rest follows.';
}
