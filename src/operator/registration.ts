/** Registrations: the URL and state of clients. */
import { presentRegistration } from '../api/endpoints/present.js';
import type { ClientToken } from '../ids.js';
import { readTargetPolicy } from '../outgoing/address.js';
import { checkTarget, originOf } from '../outgoing/target.js';
import { getEndpoint, resumeEndpoint, setPaused } from '../redis/records/endpoint.js';
import { changeRegistration, getRegistration, resetRegistration } from '../redis/records/registrations.js';
import { type AddCommand, type Operator, Refused, requireClient } from './session.js';
import { facts, fromNow, moment, presentLastError } from './terminal.js';

export function addRegistrationCommands(add: AddCommand): void {
  add('show <token>', "show a client's URL, its state and its owed notifications", show);
  add('reset <token>', 'remove the URL; owed assets stay owed and go to the next URL', reset);
  add('change <token>', 'replace the URL immediately, without a gap', change).requiredOption(
    '--url <url>',
    'the new URL',
  );
  add('pause <token>', 'pause all deliveries; owed assets stay owed', pause);
  add('resume <token>', 'end a pause, and probe a suspended or failing endpoint now; then drain', resume);
}

async function show(operator: Operator, token: ClientToken) {
  const { accountId: account_id } = await requireClient(operator, token);
  const found = await getRegistration(await operator.db(), token);
  if (found === undefined) throw new Refused(`${token} has no URL.`);
  const endpoint = await getEndpoint(await operator.db(), token);
  operator.answer(
    {
      client_token: token,
      account_id,
      ...presentRegistration(found, endpoint),
      held: endpoint.held,
      owed_since: moment(endpoint.oldestOwedAt),
      last_status: endpoint.lastStatus ?? null,
      in_flight: endpoint.inFlight,
    },
    facts({
      client: token,
      url: found.url,
      state: endpoint.held ? `${endpoint.state} (account disabled)` : endpoint.state,
      since: endpoint.lastChange && `${fromNow(endpoint.lastChange.atMs)}: ${endpoint.lastChange.why}`,
      registered: moment(found.registeredAtMs),
      owed: endpoint.owed,
      'owed since': fromNow(endpoint.oldestOwedAt),
      'last success': fromNow(endpoint.lastSuccessAt),
      'last failure': fromNow(endpoint.lastFailureAt),
      'last error': presentLastError(endpoint),
      'next attempt': fromNow(endpoint.nextAttemptAt),
      'in flight': endpoint.inFlight,
    }),
  );
}

async function reset(operator: Operator, token: ClientToken) {
  await requireClient(operator, token);
  const removed = await operator.change((db) => resetRegistration(db, token));
  if (removed === undefined) throw new Refused(`${token} has no URL.`);
  const { removed_url, owed } = removed;
  const before = { url: originOf(removed_url) };
  await operator.record('registration reset', token, before, { url: null, owed });
  await operator.wake(token);
  operator.answer({ client_token: token, removed_url, owed });
}

async function change(operator: Operator, token: ClientToken, { url }: { url: string }) {
  await requireClient(operator, token);
  await checkTarget(url, readTargetPolicy(operator.config()));
  const changed = await operator.change((db) => changeRegistration(db, token, url));
  if (changed === undefined) throw new Refused(`${token} has no URL to change; its publisher registers one.`);
  const before = { url: originOf(changed.previous_url) };
  await operator.record('registration change', token, before, { url: originOf(changed.url) });
  await operator.wake(token);
  operator.answer({ client_token: token, previous_url: changed.previous_url, url: changed.url });
}

const pause = (operator: Operator, token: ClientToken) => switchTo(operator, token, 'pause');
const resume = (operator: Operator, token: ClientToken) => switchTo(operator, token, 'resume');

async function switchTo(operator: Operator, token: ClientToken, verb: 'pause' | 'resume') {
  await requireClient(operator, token);
  const db = await operator.db();
  const before = await getEndpoint(db, token);
  await operator.change(async (own) => {
    await setPaused(own, token, verb === 'pause');
    if (verb === 'resume') await resumeEndpoint(own, token);
  });
  const { state, owed, held } = await getEndpoint(db, token);
  await operator.record(`registration ${verb}`, token, { state: before.state }, { state });
  await operator.wake(token);
  const answer = { client_token: token, previous_state: before.state, state, owed };
  if ((await getRegistration(db, token)) === undefined) {
    const next = verb === 'pause' ? 'paused' : 'not paused';
    return operator.answer(answer, `${token} has no URL; the next one is ${next}.`);
  }
  const was = state === before.state ? '' : ` (was ${before.state})`;
  const probed = verb === 'resume' && state === 'failing';
  const follows = probed ? ' A probe goes out now; once it succeeds, the rest follows.' : '';
  const why = held ? ' Its account is disabled, so nothing is sent.' : follows;
  operator.answer(answer, `${token} is ${state}${was}; owed: ${owed}.${why}`);
}
