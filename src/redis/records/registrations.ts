/**
 * The one URL of a client. Storing it has two phases: a script stores it, unanswered; once the caller's 200 is out
 * it is marked answered. A call that ended without an answer can so be told from one that was answered, and its
 * repeat gets the 200 that it never saw.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AccountId, ClientToken } from '../../ids.js';
import type { Db } from '../connection/db.js';
import { runPipeline } from '../connection/pipeline.js';
import { clientScript, runScript, text } from '../connection/script.js';
import { endpointLua } from './endpointLua.js';
import type { SecretBox } from './secretBox.js';
import { createSigningSecret } from './signingSecrets.js';

export interface Registration {
  clientToken: ClientToken;
  url: string;
  generation: number;
  registeredAtMs: number;
  accountId: AccountId;
  /** False while no caller has been told 200 for it. */
  answered: boolean;
}

export type RegisterResult =
  /** Stored by this call, sent to Redis at `storingSinceMs`; `markAnswered` with the nonce once the 200 is out. */
  | { outcome: 'stored'; nonce: string; storingSinceMs: number; wakeCatchUp: boolean }
  /** The client has a URL. */
  | { outcome: 'taken' };

/** A call that runs no longer than this may answer 200. */
export const answerWithinMs = 2000;
/** From then on an unanswered registration may be taken over by a repeat: the first call can no longer be running. */
export const takeOverAfterMs = answerWithinMs + 500;
const pollMs = 50;

/**
 * Stores the URL when the client has none, and makes the client's signing secret when it has none. While an equal
 * unanswered call may still be running it waits for that one's end, 2.5 s at most.
 */
export async function register(
  db: Db,
  box: SecretBox,
  wanted: { clientToken: string; accountId: string; url: string },
): Promise<RegisterResult> {
  await createSigningSecret(db, box, wanted.clientToken);
  const nonce = randomUUID();
  for (;;) {
    const storingSinceMs = Date.now();
    const answer = await runScript(db, registerScript, wanted.clientToken, [
      wanted.url,
      wanted.accountId,
      nonce,
      takeOverAfterMs,
    ]);
    const [outcome, wake] = (answer as unknown[]).map(text);
    if (outcome === 'stored') return { outcome, nonce, storingSinceMs, wakeCatchUp: wake === '1' };
    if (outcome === 'taken') return { outcome };
    await sleep(pollMs);
  }
}

/** What is owed goes to the new URL at once. '1': there is something, and catch-up must be woken for it. */
const dueNowLua = `
local function due_now()
  if redis.call('HLEN', base .. 'owed') == 0 then return '0' end
  pull_forward()
  return '1'
end
`;

// ARGV 2 url, 3 account id, 4 nonce, 5 age (ms) from which an unanswered one is taken over.
// Answers {'stored', wake} | {'taken'} | {'pending'}.
const registerScript = clientScript(
  `
local R = base .. 'registration'
local url, account, answered, since, nonce =
  unpack(redis.call('HMGET', R, 'url', 'account_id', 'answered', 'pending_since', 'nonce'))
if url then
  if nonce == ARGV[4] then return {'stored', due_now()} end
  if answered == '1' or url ~= ARGV[2] or account ~= ARGV[3] then return {'taken'} end
  if now - tonumber(since or '0') < tonumber(ARGV[5]) then return {'pending'} end
  redis.call('HSET', R, 'nonce', ARGV[4], 'pending_since', now)
  return {'stored', due_now()}
end
redis.call('HSET', R, 'url', ARGV[2], 'account_id', ARGV[3], 'nonce', ARGV[4],
  'answered', '0', 'pending_since', now, 'registered_at', now)
redis.call('HSET', R, 'generation', new_generation())
note_change('not_registered', 'registered', 'publisher')
return {'stored', due_now()}
`,
  endpointLua,
  dueNowLua,
);

/** The 200 is out: from now on a repeat is refused. Changes nothing when another call took it over. */
export async function markAnswered(db: Db, clientToken: string, nonce: string): Promise<void> {
  await runScript(db, answeredScript, clientToken, [nonce]);
}

const answeredScript = clientScript(`
local R = base .. 'registration'
if redis.call('HGET', R, 'nonce') == ARGV[2] then
  redis.call('HSET', R, 'answered', '1')
  redis.call('HDEL', R, 'pending_since')
end
return 1
`);

export async function getRegistration(db: Db, clientToken: string): Promise<Registration | undefined> {
  return toRegistration(clientToken, await db.redis.hgetall(db.client(clientToken).registration));
}

/** Every registration, by client token. */
export async function listRegistrations(db: Db): Promise<Registration[]> {
  const tokens = (await db.redis.smembers(db.global.clients)).sort();
  const found: Registration[] = [];
  for (let start = 0; start < tokens.length; start += pageSize) {
    const page = tokens.slice(start, start + pageSize);
    const commands = db.redis.pipeline();
    for (const token of page) commands.hgetall(db.client(token).registration);
    const records = (await runPipeline(commands)) as Record<string, string>[];
    found.push(...records.flatMap((record, i) => toRegistration(page[i] ?? '', record) ?? []));
  }
  return found;
}

/** Bounds each answer of Redis, so that a long list delays nobody else's command. */
const pageSize = 500;

/** Takes the URL away; what is owed stays owed. undefined when there was none. */
export async function resetRegistration(
  db: Db,
  clientToken: string,
): Promise<{ removed_url: string; owed: number } | undefined> {
  const answer = await runScript(db, resetScript, clientToken, []);
  if (answer === null) return undefined;
  const [url, owed] = answer as [Buffer, number];
  return { removed_url: text(url), owed };
}

const resetScript = clientScript(
  `
local R = base .. 'registration'
local url, from = redis.call('HGET', R, 'url'), seen()
if not url then return false end
redis.call('DEL', R)
new_generation()
note_change(from, 'reset', 'operator')
return {url, redis.call('HLEN', base .. 'owed') + redis.call('HLEN', base .. 'flight')}
`,
  endpointLua,
);

/**
 * Puts another URL in the place of the present one, without a gap; its health starts anew and what is owed is due.
 * The caller wakes catch-up when `wakeCatchUp`. undefined when nothing is registered.
 */
export async function changeRegistration(
  db: Db,
  clientToken: string,
  url: string,
): Promise<{ previous_url: string; url: string; wakeCatchUp: boolean } | undefined> {
  const answer = await runScript(db, changeScript, clientToken, [url, randomUUID()]);
  if (answer === null) return undefined;
  const [previous, wake] = (answer as unknown[]).map(text);
  return { previous_url: previous ?? '', url, wakeCatchUp: wake === '1' };
}

// ARGV 2 url, 3 nonce: an unanswered call of the API can no longer mark it.
const changeScript = clientScript(
  `
local R = base .. 'registration'
local previous, from = redis.call('HGET', R, 'url'), seen()
if not previous then return false end
redis.call('HSET', R, 'url', ARGV[2], 'nonce', ARGV[3], 'answered', '1', 'registered_at', now)
redis.call('HDEL', R, 'pending_since')
redis.call('HSET', R, 'generation', new_generation())
note_change(from, 'the url was changed', 'operator')
return {previous, due_now()}
`,
  endpointLua,
  dueNowLua,
);

function toRegistration(clientToken: string, record: Record<string, string>): Registration | undefined {
  if (!record.url) return undefined;
  return {
    clientToken: clientToken as ClientToken,
    url: record.url,
    generation: Number(record.generation ?? 0),
    registeredAtMs: Number(record.registered_at ?? 0),
    accountId: record.account_id as AccountId,
    answered: record.answered === '1',
  };
}
