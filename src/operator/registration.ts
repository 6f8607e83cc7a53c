/** Registrations: the URL and state of clients, and tests of their receivers, which affect nothing else. */
import { z } from 'zod';
import { checkReceiver, sendTest } from '../acts/receiverChecks.js';
import { change, pause, reset, resume, showRegistration } from '../acts/registrations.js';
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
import { explainFailure } from '../outgoing/details.js';
import { count } from '../web/words.js';
import { accountId, anyClient } from './input.js';
import { actOperation, type Operator, requireClient } from './operation.js';
import { shownOf, tableOf } from './terminal.js';

const input = z.object({ client_token: anyClient });

const asked = async (operator: Operator, { client_token }: z.output<typeof input>) => ({
  client: await requireClient(operator, client_token),
});

const headers_left_behind = z.array(text('x-gateway-key'));
/** @param left names of request headers */
const sayLeft = (left: readonly string[]): string[] =>
  left.length === 0
    ? []
    : [
        `Request headers belong to the URL for which their account set them, and stay behind with it: ${left.join(', ')}. They are back if that URL is; for another the account sets them again.`,
      ];

export const registrationShow = actOperation({
  act: showRegistration,
  asked,
  command: 'registration show <token>',
  does: "show a client's URL, its state and its owed notifications",
  input,
  answers: registeredUrl.extend({
    client_token: anyClient,
    account_id: accountId,
    held: yesOrNo(false),
    owed_since: time().nullable(),
    last_status: integer(503).nullable(),
    in_flight: integer(1),
  }),
});

export const registrationReset = actOperation({
  act: reset,
  asked,
  command: 'registration reset <token>',
  does: 'remove the URL; owed assets stay owed and go to the next URL',
  input,
  answers: z.object({ client_token: anyClient, removed_url: url, owed: integer(12), headers_left_behind }),
  shown: (done) => [...shownOf(done), ...sayLeft(done.headers_left_behind)],
});

export const registrationChange = actOperation({
  act: change,
  asked: async (operator, given) => ({ ...(await asked(operator, given)), url: given.url }),
  command: 'registration change <token>',
  does: 'replace the URL immediately, without a gap',
  input: input.extend({ url: url.describe('the new URL') }),
  answers: z.object({
    client_token: anyClient,
    previous_url: url,
    url,
    headers_left_behind,
    headers_back: z.array(text('x-gateway-key')),
  }),
  shown: (done) => [...shownOf(done), ...sayLeft(done.headers_left_behind)],
  words: { not_registered: (client) => `${client} has no URL to change; its publisher must register one.` },
});

const switched = z.object({
  client_token: anyClient,
  previous_state: endpointState,
  state: endpointState,
  owed: integer(12),
});

export const registrationPause = actOperation({
  act: pause,
  asked,
  command: 'registration pause <token>',
  does: 'pause all deliveries; owed assets stay owed',
  input,
  answers: switched,
  shown: (done) => [shownState(done, 'paused', '')],
});

export const registrationResume = actOperation({
  act: resume,
  asked,
  command: 'registration resume <token>',
  does: 'end a pause, and probe a suspended or failing endpoint now; what waits follows',
  input,
  answers: switched,
  shown(done) {
    const when = done.isWoken ? 'A probe goes out now' : 'A probe goes out later';
    const rest = done.owed === 1 ? '' : '; once it succeeds, the rest follows';
    const probe = done.owed === 0 ? 'The next event probes it.' : `${when}${rest}.`;
    return [shownState(done, 'not paused', done.state === 'failing' ? ` ${probe}` : '')];
  },
});

type Switched = Awaited<ReturnType<typeof resume>>;

function shownState({ hasUrl, held, ...done }: Switched, next: string, follows: string): string {
  const { client_token: client, previous_state: before, state, owed } = done;
  if (!hasUrl) return `${client} has no URL; the next one is ${next}.`;
  const was = state === before ? '' : ` (was ${before})`;
  const why = held ? ' Its account is disabled, so nothing is sent.' : follows;
  return `${client} is ${state}${was}; owed: ${owed}.${why}`;
}

const testInput = input.extend({
  url: z.string().optional().describe('where to, if not to the registered URL'),
});

const askedTest = async (operator: Operator, given: z.output<typeof testInput>) => ({
  ...(await asked(operator, given)),
  url: given.url,
});

export const registrationTest = actOperation({
  act: sendTest,
  asked: askedTest,
  command: 'registration test <token>',
  does: 'send one test notification now; it counts for nothing else',
  input: testInput,
  answers: answeredRequest.extend({ client_token: anyClient }),
  failed: (sent) => `The receiver ${explainFailure(sent).does}. ${explainFailure(sent).advice}`,
});

export const registrationCheck = actOperation({
  act: checkReceiver,
  asked: askedTest,
  command: 'registration check <token>',
  does: 'send five tests, good and bad, and say what the receiver does wrong',
  input: testInput,
  answers: z.object({
    client_token: anyClient,
    checks: z.array(z.object({ name: text('good'), verdict: text('ok'), advice: text('Nothing to do.') })),
  }),
  failed: ({ checks }) =>
    `${count(checks.filter(({ verdict }) => verdict === 'fail').length, 'check')} of ${checks.length} failed.`,
  shown: ({ checks }) => [{ ...tableOf(checks, '', ['verdict', 'name', 'advice']), isCut: false }],
});
