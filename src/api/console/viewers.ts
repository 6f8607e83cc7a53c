/**
 * Holds the open streams of this process and announces changes to them. It reads Redis every 2 s, once for all sites that
 * have a stream, and not at all without a stream.
 */
import type { PassThrough } from 'node:stream';
import type { Logger } from '../../log.js';
import { type Db, nowOf } from '../../redis/connection/db.js';
import { runPipeline } from '../../redis/connection/pipeline.js';
import { attemptsKey } from '../../redis/records/attemptHistory.js';
import { findConsoleSession } from '../../redis/records/consoleSessions.js';
import { type Endpoint, getEndpoints } from '../../redis/records/endpoint.js';

export interface Viewer {
  clientToken: string;
  /** The secret of the session, to check whether it has ended. */
  secret: string;
  stream: PassThrough;
}

const lookEveryMs = 2_000;
/** In reads: how often sessions are checked, and bytes sent before a proxy or this server closes an idle connection. */
const sessionsEvery = 5;
const signEvery = 10;
const streamsAtMost = 500;
const streamsOfASession = 12;

export class Viewers {
  readonly #viewers = new Set<Viewer>();
  /** The last state read of each site. */
  readonly #marks = new Map<string, string>();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;
  #looks = 0;

  constructor(
    private readonly db: Db,
    private readonly log: Logger,
  ) {}

  /** Returns false if the limit is reached, of this process or of this session. */
  add(viewer: Viewer): boolean {
    const ofSession = [...this.#viewers].filter(({ secret }) => secret === viewer.secret).length;
    if (this.#viewers.size >= streamsAtMost || ofSession >= streamsOfASession) return false;
    this.#viewers.add(viewer);
    viewer.stream.once('close', () => this.#remove(viewer));
    viewer.stream.write('retry: 5000\n\n');
    this.#timer ??= setInterval(() => void this.#look(), lookEveryMs);
    return true;
  }

  get size(): number {
    return this.#viewers.size;
  }

  /** Ends every stream; browsers then connect again, to any process that accepts. */
  close(): void {
    for (const { stream } of this.#viewers) stream.end();
  }

  #remove(viewer: Viewer): void {
    this.#viewers.delete(viewer);
    if (this.#viewers.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#marks.clear();
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      this.#looks++;
      if (this.#looks % sessionsEvery === 0) await this.#endWithSessions();
      if (this.#looks % signEvery === 0) this.#tell(() => true, ':\n\n');
      await this.#tellChanges();
    } catch (err) {
      // Redis is unavailable: no change can be announced, and the pages say so.
      this.log.debug(
        { reason: err instanceof Error ? err.message : 'unknown' },
        'no look at the sites that are viewed',
      );
    } finally {
      this.#isLooking = false;
    }
  }

  async #endWithSessions(): Promise<void> {
    for (const secret of new Set([...this.#viewers].map((viewer) => viewer.secret))) {
      if ((await findConsoleSession(this.db, secret)) !== undefined) continue;
      for (const viewer of this.#viewers) {
        if (viewer.secret === secret) viewer.stream.end('event: ended\ndata:\n\n');
      }
    }
  }

  async #tellChanges(): Promise<void> {
    const clientTokens = [...new Set([...this.#viewers].map(({ clientToken }) => clientToken))];
    const marks = await marksOf(this.db, clientTokens);
    for (const [clientToken, mark] of marks) {
      const before = this.#marks.get(clientToken);
      this.#marks.set(clientToken, mark);
      // The site may have changed between the page and the first read of its state.
      if (before !== mark)
        this.#tell((viewer) => viewer.clientToken === clientToken, 'event: changed\ndata:\n\n');
    }
  }

  #tell(isMeant: (viewer: Viewer) => boolean, text: string): void {
    for (const viewer of this.#viewers) {
      // A browser that does not read has an unread event already: one is as good as many.
      if (isMeant(viewer) && !viewer.stream.writableNeedDrain) viewer.stream.write(text);
    }
  }
}

/** Returns a text that changes whenever a page would, without the time of the next attempt: for due assets it is always now. */
async function marksOf(db: Db, clientTokens: readonly string[]): Promise<Map<string, string>> {
  const commands = db.redis.pipeline();
  for (const clientToken of clientTokens) {
    commands.zrevrange(db.client(clientToken).notifications, 0, 0);
    commands.hgetall(attemptsKey(db, clientToken, nowOf(db)));
  }
  const [read, endpoints] = await Promise.all([runPipeline(commands), getEndpoints(db, clientTokens)]);
  return new Map(
    clientTokens.map((clientToken, i) => {
      const { nextAttemptAt: _, ...rest } = endpoints[i] as Endpoint;
      return [clientToken, JSON.stringify([read[2 * i], read[2 * i + 1], rest])];
    }),
  );
}
