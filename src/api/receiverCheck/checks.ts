/** The requests of a receiver's check, and how they are sent. */
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import { idFromBytes } from '../../ids.js';
import { hidden, notificationRequest } from '../../outgoing/notification.js';
import type { PostResult, Sender } from '../../outgoing/post.js';

/** The five sends of a check; `twice` is `good` sent once more, with the same id. */
export type Sent = 'good' | 'wrong_signature' | 'old_timestamp' | 'twice' | 'slow';

export interface Exchange {
  request: { headers: Record<string, string>; body: string };
  result: PostResult;
}

/** Older than any receiver should accept: libraries of Standard Webhooks accept 5 minutes. */
const oldMs = 3_600_000;
const pieces = 5;
const betweenPiecesMs = 250;

/** The target of a check, and the secrets that sign it. */
export interface Checked {
  url: string;
  clientToken: string;
  /** As for `sign`: the current secret first. */
  secrets: readonly string[];
  /** The client's own request headers: sent, and hidden wherever a request is shown. */
  own: Readonly<Record<string, string>>;
}

/**
 * Makes the five sends of a check: the good one, and once it is answered the others at the same time.
 * @param signal ends the wait for a place and every send that is under way
 * @throws the signal's reason if a send got no place in time
 */
export async function sendChecks(
  sender: Sender,
  { url, clientToken, secrets, own }: Checked,
  signal: AbortSignal,
): Promise<Record<Sent, Exchange>> {
  const send = async (id: string, given: { secrets?: string[]; ageMs?: number; inPieces?: true } = {}) => {
    const place = await sender.place(url, clientToken, signal);
    const request = notificationRequest(
      { notificationId: id, clientToken, platformId: 'test', event: 'test' },
      given.secrets ?? secrets,
      Date.now() - (given.ageMs ?? 0),
      own,
    );
    const startedAtMs = performance.now();
    const result = await place
      .post(given.inPieces ? slowly(request) : request)
      .catch(() => tooLate(performance.now() - startedAtMs));
    return { request: { ...request, headers: { ...request.headers, ...hidden(own) } }, result };
  };
  const goodId = newId();
  const good = await send(goodId);
  const [wrongSignature, oldTimestamp, twice, slow] = await Promise.all([
    send(newId(), { secrets: [`whsec_${randomBytes(24).toString('base64')}`] }),
    send(newId(), { ageMs: oldMs }),
    send(goodId),
    send(newId(), { inPieces: true }),
  ]);
  return { good, wrong_signature: wrongSignature, old_timestamp: oldTimestamp, twice, slow };
}

const newId = (): string => idFromBytes(randomBytes(16));

/** The same request, with its body sent in pieces over a second. */
const slowly = ({ headers, body }: Exchange['request']) => ({
  headers: { ...headers, 'content-length': String(Buffer.byteLength(body)) },
  body: () => Readable.from(inPieces(Buffer.from(body)), { objectMode: false }),
});

async function* inPieces(bytes: Buffer): AsyncGenerator<Buffer> {
  const size = Math.ceil(bytes.length / pieces);
  for (let start = 0; start < bytes.length; start += size) {
    if (start > 0) await wait(betweenPiecesMs);
    yield bytes.subarray(start, start + size);
  }
}

const tooLate = (milliseconds: number): PostResult => ({ ok: false, error: 'timeout', milliseconds });
