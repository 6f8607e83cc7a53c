/** Registrations: the URL and state of clients, and tests of their receivers, which affect nothing else. */
import { z } from 'zod';
import { checkReceiver, sendTest } from '../acts/receiverChecks.js';
import {
  change,
  listFormer,
  pause,
  reset,
  restore,
  resume,
  showRegistration,
} from '../acts/registrations.js';
import { acceptUrl, declineUrl, listUrlRequests } from '../acts/urlRequests.js';
import {
  answeredRequest,
  endpointState,
  integer,
  reasonText,
  registeredUrl,
  text,
  time,
  urlText as url,
  yesOrNo,
} from '../http/schemas.js';
import { explainFailure } from '../outgoing/details.js';
import { count } from '../web/words.js';
import { accountId, anyClient } from './input.js';
import { actOperation, cutPage, listed, operation } from './operation.js';
import { requireClient } from './subjects.js';
import { type Part, shownOf, tableOf } from './terminal.js';

const input = z.object({ client_token: anyClient });

const headers_left_behind = z.array(text('x-gateway-key'));

/** Shows a change of the URL, and names the request headers that stay behind with it. */
function shownLeft(done: { headers_left_behind: readonly string[] }): Part[] {
  const left = done.headers_left_behind.join(', ');
  const says = `Request headers belong to the URL for which their account set them, and stay behind with it: ${left}. They are back if that URL is; for another the account sets them again.`;
  return left === '' ? shownOf(done) : [...shownOf(done), says];
}

export const registrationShow = actOperation({
  act: showRegistration,
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
  button: 'Remove URL',
  group: 'URL',
  does: 'remove the URL; owed assets stay owed and go to the next URL',
  input,
  answers: z.object({ client_token: anyClient, removed_url: url, owed: integer(12), headers_left_behind }),
  shown: shownLeft,
});

const changed = z.object({
  client_token: anyClient,
  previous_url: url.nullable(),
  url,
  headers_left_behind,
  headers_back: z.array(text('x-gateway-key')),
});
const urlChange = { group: 'URL', answers: changed, shown: shownLeft } as const;

export const registrationChange = actOperation({
  act: change,
  button: 'Change URL',
  ...urlChange,
  does: 'replace the URL immediately, without a gap',
  input: input.extend({ url: url.describe('the new URL') }),
  words: {
    not_registered: (client) =>
      `${client} has no URL to change: put a former one back (registration restore), or ask its publisher to register one.`,
  },
});

const former = text('url_9f86d081884c').regex(
  /^url_[0-9a-f]{12}$/,
  'The reference of a URL is url_ and 12 characters.',
);

export const registrationFormer = operation({
  command: 'registration former <token>',
  does: 'list the URLs that operators have changed or removed in the last 90 days',
  input,
  answers: z.object({ former, url, given_up_at: time(), kept_until: time() }),
  list: 'former_urls',
  acts: [listFormer],
  async run(operator, given, page) {
    const all = await listFormer(operator, { client: await requireClient(operator, given.client_token) });
    const { page: some, next } = cutPage(all, page, (one) => [-Date.parse(one.given_up_at), one.former]);
    return listed(some, { none: 'No former URL is kept.', next });
  },
});

export const registrationRestore = actOperation({
  act: restore,
  button: 'Put back URL',
  ...urlChange,
  does: 'put a former URL back, unless the publisher has registered one since',
  input: input.extend({
    former: former.optional().describe('which one, as `registration former` lists it (default: the last)'),
  }),
});

const request = text('req_9f86d081884c').regex(
  /^req_[0-9a-f]{12}$/,
  'The reference of a request is req_ and 12 characters.',
);

export const registrationRequests = operation({
  command: 'registration requests',
  button: 'Requests for another URL',
  does: 'list the requests of publishers for another URL that wait, the oldest first',
  input: z.object({ client: anyClient.optional().describe('only of this client') }),
  answers: z.object({
    request,
    client_token: anyClient,
    account_id: accountId.nullable(),
    asked_by: text('token 9f86d081884c'),
    present_url: url.nullable(),
    url,
    reason: reasonText,
    asked_at: time(),
    until: time(),
  }),
  list: 'requests',
  acts: [listUrlRequests],
  async run(operator, { client: token }, page) {
    const client = token === undefined ? undefined : await requireClient(operator, token);
    const all = await listUrlRequests(operator, { client });
    const { page: some, next } = cutPage(all, page, (one) => [Date.parse(one.asked_at), one.request]);
    const columns = 'client_token account_id present_url url reason asked_at request';
    return listed(some, { columns, none: 'No request for another URL waits.', next });
  },
});

const answeredInput = input.extend({
  request: request
    .optional()
    .describe('which one, as `registration requests` lists it (default: the one that waits)'),
});

export const registrationAccept = actOperation({
  act: acceptUrl,
  button: 'Accept',
  ...urlChange,
  does: 'replace the URL by the one that the publisher has asked for',
  input: answeredInput,
});

export const registrationDecline = actOperation({
  act: declineUrl,
  button: 'Decline',
  group: 'URL',
  does: 'decline the other URL that the publisher has asked for',
  input: answeredInput,
  answers: z.object({ client_token: anyClient, declined_url: url }),
});

const switched = z.object({
  client_token: anyClient,
  previous_state: endpointState,
  state: endpointState,
  owed: integer(12),
});

export const registrationPause = actOperation({
  act: pause,
  button: 'Pause',
  does: 'pause all deliveries; owed assets stay owed',
  input,
  answers: switched,
  shown: (done) => [shownState(done, 'paused', '')],
});

export const registrationResume = actOperation({
  act: resume,
  button: 'Resume',
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
  const why = held ? ' Its account is disabled or paused, so nothing is sent.' : follows;
  return `${client} is ${state}${was}; owed: ${owed}.${why}`;
}

const testInput = input.extend({
  url: z.string().optional().describe('where to, if not to the registered URL'),
});

export const registrationTest = actOperation({
  act: sendTest,
  button: 'Send a test',
  group: 'Receiver',
  does: 'send one test notification now; it counts for nothing else',
  input: testInput,
  answers: answeredRequest.extend({ client_token: anyClient }),
  failed: (sent) => `The receiver ${explainFailure(sent).does}. ${explainFailure(sent, 'us').advice}`,
});

export const registrationCheck = actOperation({
  act: checkReceiver,
  button: 'Check the receiver',
  group: 'Receiver',
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
