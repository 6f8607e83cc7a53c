/** Registrations: the URL and state of clients, and tests of their receivers, which affect nothing else. */
import { z } from 'zod';
import { presentRegistration, presentTime } from '../acts/present.js';
import { checkReceiver, presentAnswer, sendTest, targetOf } from '../acts/receiverChecks.js';
import {
  answeredRequest,
  endpointState,
  integer,
  registeredUrl,
  text,
  time,
  urlText as url,
  yesOrNo,
} from '../http/schemas.js';
import { readTargetPolicy } from '../outgoing/address.js';
import { checkTarget, originOf } from '../outgoing/target.js';
import { getEndpoint, resumeEndpoint, setPaused } from '../redis/records/endpoint.js';
import { changeRegistration, getRegistration, resetRegistration } from '../redis/records/registrations.js';
import { createSecretBox } from '../redis/records/secretBox.js';
import { accountId, anyClient } from './input.js';
import { answer, type Operator, operation, Refused, requireClient, shownUrl } from './operation.js';
import { tableOf } from './terminal.js';

const input = z.object({ client_token: anyClient });
const noUrl = (token: string, then = '') => new Refused(`${token} has no URL${then}.`, 'not_registered');

/** @throws Refused */
async function requireUrl(operator: Operator, token: string, then?: string) {
  const { accountId } = await requireClient(operator, token);
  const found = await getRegistration(await operator.db(), token);
  if (found === undefined) throw noUrl(token, then);
  return { accountId, ...found };
}

export const registrationShow = operation({
  command: 'registration show <token>',
  does: "show a client's URL, its state and its owed notifications",
  role: 'look',
  input,
  answers: registeredUrl.extend({
    client_token: anyClient,
    account_id: accountId,
    held: yesOrNo(false),
    owed_since: time().nullable(),
    last_status: integer(503).nullable(),
    in_flight: integer(1),
  }),
  async run(operator, { client_token }) {
    const { accountId: account_id, ...found } = await requireUrl(operator, client_token);
    const endpoint = await getEndpoint(await operator.db(), client_token);
    const url = shownUrl(operator, found.url);
    return answer({
      client_token,
      account_id,
      ...presentRegistration({ ...found, url }, endpoint),
      held: endpoint.held,
      owed_since: presentTime(endpoint.oldestOwedAt),
      last_status: endpoint.lastStatus ?? null,
      in_flight: endpoint.inFlight,
    });
  },
});

export const registrationReset = operation({
  command: 'registration reset <token>',
  does: 'remove the URL; owed assets stay owed and go to the next URL',
  role: 'support',
  input,
  answers: z.object({ client_token: anyClient, removed_url: url, owed: integer(12) }),
  async run(operator, { client_token }) {
    const before = { url: originOf((await requireUrl(operator, client_token)).url) };
    await operator.record('registration reset', client_token, before, { url: null });
    const removed = await operator.change((db) => resetRegistration(db, client_token));
    if (removed === undefined) throw noUrl(client_token);
    await operator.wake(client_token);
    return answer({ client_token, ...removed });
  },
});

export const registrationChange = operation({
  command: 'registration change <token>',
  does: 'replace the URL immediately, without a gap',
  role: 'support',
  input: input.extend({ url: url.describe('the new URL') }),
  answers: z.object({ client_token: anyClient, previous_url: url, url }),
  async run(operator, { client_token, url }) {
    const none = ' to change; its publisher registers one';
    const before = { url: originOf((await requireUrl(operator, client_token, none)).url) };
    await checkTarget(url, readTargetPolicy(operator.config()));
    await operator.record('registration change', client_token, before, { url: originOf(url) });
    const changed = await operator.change((db) => changeRegistration(db, client_token, url));
    if (changed === undefined) throw noUrl(client_token, none);
    await operator.wake(client_token);
    return answer({ client_token, ...changed });
  },
});

export const registrationPause = switched('pause', 'pause all deliveries; owed assets stay owed');
export const registrationResume = switched(
  'resume',
  'end a pause, and probe a suspended or failing endpoint now; then drain',
);

function switched(verb: 'pause' | 'resume', does: string) {
  return operation({
    command: `registration ${verb} <token>`,
    does,
    role: 'support',
    input,
    answers: z.object({
      client_token: anyClient,
      previous_state: endpointState,
      state: endpointState,
      owed: integer(12),
    }),
    async run(operator, { client_token }) {
      await requireClient(operator, client_token);
      const db = await operator.db();
      const before = await getEndpoint(db, client_token);
      const after = { paused: verb === 'pause' };
      await operator.record(`registration ${verb}`, client_token, { state: before.state }, after);
      await operator.change(async (own) => {
        await setPaused(own, client_token, after.paused);
        if (verb === 'resume') await resumeEndpoint(own, client_token);
      });
      const { state, owed, held } = await getEndpoint(db, client_token);
      const isAwake = await operator.wake(client_token);
      const value = { client_token, previous_state: before.state, state, owed };
      if ((await getRegistration(db, client_token)) === undefined) {
        const next = verb === 'pause' ? 'paused' : 'not paused';
        return answer(value, `${client_token} has no URL; the next one is ${next}.`);
      }
      const was = state === before.state ? '' : ` (was ${before.state})`;
      const when = isAwake ? 'A probe goes out now' : 'A probe goes out later';
      const rest = owed === 1 ? '' : '; once it succeeds, the rest follows';
      const probe = owed === 0 ? 'The next event probes it.' : `${when}${rest}.`;
      const follows = verb === 'resume' && state === 'failing' ? ` ${probe}` : '';
      const why = held ? ' Its account is disabled, so nothing is sent.' : follows;
      return answer(value, `${client_token} is ${state}${was}; owed: ${owed}.${why}`);
    },
  });
}

const testInput = input.extend({
  url: z.string().optional().describe('where to, if not to the registered URL'),
});

/** Finds where a test goes, and records it: as a publisher's test, with the client's own headers to no other URL than the registered. */
async function findTarget(
  operator: Operator,
  what: string,
  { client_token: clientToken, url }: z.output<typeof testInput>,
) {
  await requireClient(operator, clientToken);
  const db = await operator.db();
  const registered = (await getRegistration(db, clientToken))?.url;
  const to = url ?? registered;
  if (to === undefined) throw new Refused(`${clientToken} has no URL: give one.`, 'not_registered');
  if (to !== registered) await checkTarget(to, readTargetPolicy(operator.config()));
  await operator.record(what, clientToken, null, { url: originOf(to) });
  return targetOf(db, createSecretBox(operator.config().SECRETS_KEY), { url: to, clientToken, registered });
}

export const registrationTest = operation({
  command: 'registration test <token>',
  does: 'send one test notification now; it counts for nothing else',
  role: 'support',
  input: testInput,
  answers: answeredRequest.extend({ client_token: anyClient }),
  async run(operator, given) {
    const target = await findTarget(operator, 'registration test', given);
    const { result } = await sendTest(await operator.sender(), target);
    return answer({ client_token: given.client_token, ...presentAnswer(result) });
  },
});

export const registrationCheck = operation({
  command: 'registration check <token>',
  does: 'send five tests, good and bad, and say what the receiver does wrong',
  role: 'support',
  input: testInput,
  answers: z.object({
    client_token: anyClient,
    checks: z.array(z.object({ name: text('good'), verdict: text('ok'), advice: text('Nothing to do.') })),
  }),
  async run(operator, given) {
    const target = await findTarget(operator, 'registration check', given);
    const slowMs = operator.config().ATTEMPT_TIMEOUT_SECONDS * 500;
    const judged = await checkReceiver(await operator.sender(), target, slowMs);
    const checks = judged.map(({ verdict, name, advice }) => ({ verdict, name, advice }));
    return answer({ client_token: given.client_token, checks }, { ...tableOf(checks, ''), isCut: false });
  },
});
