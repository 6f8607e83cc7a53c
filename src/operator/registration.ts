/** Registrations: the URL and state of clients, and of the clients that get notices. */
import { Option } from 'commander';
import { presentRegistration } from '../api/endpoints/present.js';
import { type ClientToken, noticesClient } from '../ids.js';
import { targetPolicyOf } from '../outgoing/address.js';
import { checkTarget, originOf } from '../outgoing/target.js';
import {
  type Endpoint,
  endpointStates,
  getEndpoint,
  getEndpoints,
  resumeEndpoint,
  setPaused,
} from '../redis/records/endpoint.js';
import { noticesClientOf } from '../redis/records/notices.js';
import {
  changeRegistration,
  getRegistration,
  listRegistrations,
  type Registration,
  resetRegistration,
} from '../redis/records/registrations.js';
import { rotateSecret } from './client.js';
import { type AddCommand, type Operator, Refused, requireAccount, requireClient } from './session.js';
import { facts, fromNow, lastErrorOf, moment, table } from './terminal.js';

export function addRegistrationCommands(add: AddCommand): void {
  add('show <token>', "show a client's URL, its state and its owed notifications", show);
  add('list', 'list every registration, or those in one state', list).addOption(
    new Option('--state <state>', 'only in this state').choices(endpointStates),
  );
  add('reset <token>', 'remove the URL; owed assets stay owed for 30 days and go to the next URL', reset);
  add('change <token>', 'replace the URL immediately, without a gap', change).requiredOption(
    '--url <url>',
    'the new URL',
  );
  add('pause <token>', 'pause all deliveries; owed assets stay owed', pause);
  add('resume <token>', 'end a pause, and probe a suspended or failing endpoint now; then drain', resume);
}

export function addNoticesCommands(add: AddCommand): void {
  add('show <account>', "show the URL for an account's (or platform's) notices, and its state", showNotices);
  const replaces = 'replace the signing secret of notices; the old one also signs for 24 h';
  add('rotate-secret <account>', replaces, rotateNoticesSecret).option(
    '--now',
    'the old one and every earlier one end immediately',
  );
}

async function show(operator: Operator, token: ClientToken) {
  await requireClient(operator, token);
  const found = await getRegistration(await operator.db(), token);
  if (found === undefined) throw new Refused(`${token} has no URL.`);
  const endpoint = await getEndpoint(await operator.db(), token);
  operator.answer(
    present(found, endpoint),
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

async function list(operator: Operator, { state }: { state?: Endpoint['state'] }) {
  const db = await operator.db();
  const found = await listRegistrations(db);
  const tokens = found.map(({ clientToken }) => clientToken);
  const endpoints = await getEndpoints(db, tokens);
  const rows = found
    .map((registration, i) => ({ registration, endpoint: endpoints[i] as Endpoint }))
    .filter(({ endpoint }) => state === undefined || endpoint.state === state);
  operator.answer(
    rows.map((row) => present(row.registration, row.endpoint)),
    table(
      ['CLIENT', 'STATE', 'OWED', 'SINCE', 'LAST SUCCESS', 'LAST ERROR', 'URL'],
      rows.map(({ registration: r, endpoint: e }) => [
        ...[r.clientToken, stateInWords(e), e.owed, fromNow(e.oldestOwedAt), fromNow(e.lastSuccessAt)],
        ...[lastErrorOf(e), r.url],
      ]),
      state === undefined ? 'Nothing is registered.' : `No registration is ${state}.`,
    ),
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
  await checkTarget(url, targetPolicyOf(operator.config()));
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

async function showNotices(operator: Operator, of: string) {
  await show(operator, await requireNoticesUrl(operator, of));
}

async function rotateNoticesSecret(operator: Operator, of: string, { now = false }: { now?: boolean }) {
  const client = await requireNoticesUrl(operator, of);
  const { previous_valid_until, old } = await rotateSecret(operator, client, now);
  await operator.record('notices rotate-secret', of, null, { old_ones_end: now ? 'now' : 'in 24 h' });
  const readBy = 'the account reads it with GET /notices/signing_secret';
  const said = `The notices of ${of} have a new signing secret; ${readBy}. ${old}`;
  operator.answer({ account_id: of, previous_valid_until }, said);
}

/** @param of an account's id, or `platform` @returns the client that gets the notices @throws Refused */
async function requireNoticesUrl(operator: Operator, of: string): Promise<ClientToken> {
  const clientToken =
    of === 'platform' ? noticesClient(of) : noticesClientOf(await requireAccount(operator, of));
  if (await getRegistration(await operator.db(), clientToken)) return clientToken;
  throw new Refused(`${of} has no URL for notices; an account sets its own with PUT /notices.`);
}

function present(registration: Registration, endpoint: Endpoint) {
  return {
    client_token: registration.clientToken,
    account_id: registration.accountId,
    ...presentRegistration(registration, endpoint),
    held: endpoint.held,
    owed_since: moment(endpoint.oldestOwedAt),
    last_status: endpoint.lastStatus ?? null,
    in_flight: endpoint.inFlight,
  };
}

function stateInWords(endpoint: Endpoint): string {
  return endpoint.held ? `${endpoint.state} (account disabled)` : endpoint.state;
}
