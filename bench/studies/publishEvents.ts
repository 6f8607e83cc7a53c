import { Pool } from 'undici';

export interface StudyEvent {
  client_token: string;
  platform_id: string;
  segments: string[];
  event_id?: string;
  priority?: 'live' | 'backfill';
  notify?: boolean;
}

export interface PublishOptions {
  baseUrl: string;
  accessToken: string;
  /** Events in a request. */
  batchSize: number;
  /** Requests at a time. */
  lanes: number;
  /** Most events a second; by default as fast as they are accepted. */
  perSecond?: number;
}

/**
 * Sends all events, and repeats those that get 503. Returns the notification id of each, in order ('' if it makes none).
 * @throws on any other refusal
 */
export async function publishEvents(
  options: PublishOptions,
  count: number,
  eventAt: (i: number) => StudyEvent,
): Promise<string[]> {
  const pool = new Pool(options.baseUrl, { connections: options.lanes });
  const ids = new Array<string>(count).fill('');
  const startedAt = Date.now();
  let next = 0;
  const lane = async () => {
    while (next < count) {
      const from = next;
      next = Math.min(count, next + options.batchSize);
      const waitMs = startedAt + (from * 1000) / (options.perSecond ?? Number.POSITIVE_INFINITY) - Date.now();
      if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
      let pending = Array.from({ length: next - from }, (_, k) => from + k);
      while (pending.length > 0) {
        pending = await sendBatch(pool, options.accessToken, pending, eventAt, ids);
        if (pending.length > 0) await new Promise((resolve) => setTimeout(resolve, 200));
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: options.lanes }, lane));
  } finally {
    await pool.destroy();
  }
  return ids;
}

interface Result {
  notification_id?: string;
  code?: string;
}

/** Returns the events to repeat. */
async function sendBatch(
  pool: Pool,
  accessToken: string,
  indexes: readonly number[],
  eventAt: (i: number) => StudyEvent,
  ids: string[],
): Promise<number[]> {
  const { statusCode, body } = await pool.request({
    path: '/enrichments',
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${accessToken}` },
    // A repeat must be the same event.
    body: JSON.stringify({ events: indexes.map((i) => ({ event_id: `study-${i}`, ...eventAt(i) })) }),
  });
  const text = await body.text();
  if (statusCode === 503) return [...indexes];
  if (statusCode !== 202) throw new Error(`not taken: ${statusCode} ${text.slice(0, 300)}`);
  const { results } = JSON.parse(text) as { results: Result[] };
  return indexes.filter((i, k) => {
    const result = results[k];
    ids[i] = result?.notification_id ?? '';
    if (result?.code !== undefined && result.code !== 'temporarily_unavailable') {
      throw new Error(`not taken: ${JSON.stringify(result).slice(0, 300)}`);
    }
    return result?.code !== undefined;
  });
}
