/** An HTTP server that accepts notifications on any path, answers as configured, and reports each request. */
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { ageSeconds } from './signature.mjs';

/**
 * One request, after its answer.
 * @typedef {object} Seen
 * @property {string} at ISO 8601, when it arrived
 * @property {'good' | 'bad'} signature
 * @property {string} [why] only if it is bad
 * @property {string | null} webhook_id
 * @property {boolean} duplicate a request with a good signature and the same id came before
 * @property {number | null} age_seconds of webhook-timestamp
 * @property {string | null} client_token
 * @property {string} method
 * @property {string} path without its query
 * @property {string} body
 * @property {number | null} answered status; null: the sender did not wait
 * @property {number} after_ms from its arrival to the answer
 */

/** A notification has some hundred bytes. */
const maxBodyBytes = 65_536;

/**
 * @param {object} options
 * @param {ReturnType<typeof import('./signature.mjs').createVerifier>} options.verify
 * @param {number} options.status the answer to a good signature; others get 401
 * @param {number} options.delayMs before each answer
 * @param {(seen: Seen) => void} options.tell
 */
export function createReceiver({ verify, status, delayMs, tell }) {
  /** @type {Set<string>} */
  const known = new Set();

  /** @type {import('node:http').RequestListener} */
  const answerTo = async (request, response) => {
    const arrivedAtMs = Date.now();
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    const { headers, method = '' } = request;
    const body = await read(request);
    if (body === 'aborted') return;
    const why = problemOf(method, body, headers);
    const id = String(headers['webhook-id'] ?? '');
    const isDuplicate = why === undefined && known.has(id);
    if (why === undefined) known.add(id);

    await sleep(delayMs, undefined, { signal: gone.signal }).catch(() => undefined);
    const answer = why === undefined ? status : 401;
    const isGone = gone.signal.aborted;
    // The rest of a body that is too long is not read.
    if (!isGone) response.writeHead(answer, body === 'too long' ? { connection: 'close' } : {}).end();
    tell({
      at: new Date(arrivedAtMs).toISOString(),
      signature: why === undefined ? 'good' : 'bad',
      ...(why !== undefined && { why }),
      webhook_id: id || null,
      duplicate: isDuplicate,
      age_seconds: ageSeconds(headers) ?? null,
      client_token: String(headers['webhook-client-token'] ?? '') || null,
      method,
      path: request.url?.split('?')[0] ?? '/',
      body: typeof body === 'string' ? '' : body.toString('utf8'),
      answered: isGone ? null : answer,
      after_ms: Date.now() - arrivedAtMs,
    });
  };
  // Node answers by itself, and tells nobody, where Host is missing or Expect is unknown.
  return createServer({ requireHostHeader: false }, answerTo).on('checkExpectation', answerTo);

  /**
   * @param {string} method
   * @param {Buffer | 'too long'} body
   * @param {import('node:http').IncomingHttpHeaders} headers
   */
  function problemOf(method, body, headers) {
    if (method !== 'POST') return `the method is ${method}; notifications use POST`;
    if (typeof body === 'string') return `over ${maxBodyBytes} bytes`;
    return verify(body, headers);
  }
}

/**
 * @param {import('node:http').IncomingMessage} request
 * @returns {Promise<Buffer | 'too long' | 'aborted'>}
 */
async function read(request) {
  const parts = [];
  let bytes = 0;
  try {
    for await (const part of request.iterator({ destroyOnReturn: false })) {
      bytes += part.length;
      if (bytes > maxBodyBytes) return 'too long';
      parts.push(part);
    }
  } catch {
    return 'aborted';
  }
  return Buffer.concat(parts);
}
