/** The signing secret of a client, and the request headers of its own. */
import { badParameter, tooMany } from '../http/apiError.js';
import { isNoticesClient } from '../ids.js';
import { lookOnceMs } from '../redis/records/audit.js';
import {
  createSigningSecret,
  type RequestHeaders,
  rotateSigningSecret,
  rotationWaitMs,
  setRequestHeaders,
} from '../redis/records/secrets.js';
import { type Actor, act, withSecrets } from './act.js';
import { presentTime } from './present.js';
import { type About, requireRegistration, type Subject } from './subjects.js';

/** Shows a signing secret, and makes it if there is none. */
export const showSigningSecret = act(
  'signing secret read',
  withSecrets,
  async (actor, { client }: About, admit) => {
    const { clientToken } = client;
    await requireOwner(actor, client);
    await admit({}, { onceForMs: lookOnceMs, security: 'look' });
    const box = await actor.secretBox();
    return { signing_secret: await actor.change((db) => createSigningSecret(db, box, clientToken)) };
  },
);

/** A client has a secret before it has a URL; the notices of an account have one only with a URL. */
async function requireOwner(actor: Actor, client: Subject): Promise<void> {
  if (isNoticesClient(client.clientToken)) await requireRegistration(await actor.db(), client);
}

/** Makes a new signing secret. The old one also signs for 24 h; with `now` it ends immediately, like every earlier one. */
export const rotate = act(
  'secrets rotate',
  { publisher: 'signingSecrets', operator: 'admin' },
  async (actor, { client, now = false }: About & { now?: boolean }, admit) => {
    const { clientToken } = client;
    await requireOwner(actor, client);
    // Before the audit: a flood of refused calls must not displace the entries of carried out calls.
    const waitMs = now ? 0 : await rotationWaitMs(await actor.db(), clientToken);
    if (waitMs > 0) throw tooManyRotations(waitMs);
    const after = { old_ones_end: now ? 'now' : 'in 24 h' };
    await admit({ after, about: {} }, { security: 'change' });
    const box = await actor.secretBox();
    const rotated = await actor.change((db) => rotateSigningSecret(db, box, clientToken, { now }));
    if (rotated.outcome === 'too_many') throw tooManyRotations(rotated.waitMs);
    await actor.claimNotices(clientToken);
    return {
      client_token: clientToken,
      signing_secret: rotated.signingSecret,
      previous_valid_until: presentTime(rotated.previousValidUntilMs),
    };
  },
);

const rotations = { name: 'rotations', calls: 10, windowSeconds: 86_400 };

const tooManyRotations = (waitMs: number) =>
  tooMany('Ten previous signing secrets still sign, for 24 h each', rotations, waitMs);

export const ownHeadersAtMost = 5;

/** Headers that the service or HTTP sets, that a proxy uses for its own hop (RFC 9110, section 7.6.1), or that name the origin. */
const reserved =
  /^(accept-encoding|connection|content-.*|date|expect|forwarded|host|http2-settings|keep-alive|proxy-.*|te|traceparent|trailer|transfer-encoding|upgrade|user-agent|via|webhook-.*|x-forwarded-.*|x-real-ip)$/;

export const isReservedHeader = (name: string): boolean => reserved.test(name.toLowerCase());

/** Replaces all request headers of a client's own. Names in any case. */
export const setHeaders = act(
  'request headers set',
  withSecrets,
  async (actor, { client: { clientToken }, headers: given }: About & { headers: RequestHeaders }, admit) => {
    const headers = readHeaders(given);
    const names = Object.keys(headers).sort();
    const after = { header_names: names };
    await admit({ after }, { sets: true, security: 'change' });
    const box = await actor.secretBox();
    await actor.change((db) => setRequestHeaders(db, box, clientToken, headers));
    return after;
  },
);

/** Returns the headers with their names in lower case. No message contains a value. @throws ApiError 400 */
function readHeaders(given: RequestHeaders): RequestHeaders {
  const entries = Object.entries(given);
  if (entries.length > ownHeadersAtMost)
    throw badParameter(`At most ${ownHeadersAtMost} headers are accepted`);
  const found = new Map<string, string>();
  for (const [name, value] of entries) {
    if (isReservedHeader(name))
      throw badParameter(`The header ${name} is reserved for the service, HTTP or proxies`);
    if (found.has(name.toLowerCase())) throw badParameter(`The header ${name} occurs twice`);
    found.set(name.toLowerCase(), value);
  }
  return Object.fromEntries(found);
}
