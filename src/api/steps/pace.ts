/**
 * Paces calls in the memory of each process, so that nobody's flood takes the event loop from the others. An account's calls wait in
 * its line, those without a known token in the line of the caller's network. A call that would wait for more than a second is refused.
 * Some have their own way: publishing is paced by what is accepted (delivery/hands.ts); health checks and scrapes are never refused,
 * or a stranger could have the balancer take every process out, and nobody would see it.
 */
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../config.js';
import { type ApiError, type Quota, tooMany } from '../../http/apiError.js';
import { clientAddress, networkOf } from '../../http/clientAddress.js';
import type { ApiContext, Step } from '../../http/context.js';
import { OwnRate, Remembered } from '../../http/rates.js';
import { withTimeout } from '../../promises.js';
import { ignore } from '../../redis/connection/unavailable.js';
import { secretHash } from '../../redis/records/accounts.js';
import type { ApiDeps, Services } from '../deps.js';
import { bearerToken } from './publisher.js';

const maxWaitMs = 1000;
const healthPerSecond = 1000;
const scrapesPerSecond = 20;
/** How many calls sending a file of the description costs as much as: they have up to 1.7 MB. */
const weights: [path: RegExp, weight: number][] = [
  [/^\/(openapi\.json|docs\/swagger)/, 30],
  [/^\/docs/, 10],
  // The provider is asked, and what is remembered of each takes 300 bytes for 10 minutes.
  [/^\/desk\/sign_in/, 10],
];

const weightOf = (target: string) => weights.find(([path]) => path.test(target))?.[1] ?? 1;
/** How long an operator is known, for the pace of calls. */
const knownForMs = 3_600_000;

export const healthPaths = new Set(['/healthz', '/readyz']);

/** Where proxies are, but no stranger, who may send X-Forwarded-For too. */
const internal = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '127.0.0.0/8', 'fc00::/7'];

/** Returns lines by key: each lets so many calls pass in a second, as many at once, and as many again after a wait. */
function createLine(perSecond: number, isRefused = true) {
  const quota: Quota = { name: 'calls', calls: perSecond, windowSeconds: 1 };
  return { quota, rate: new OwnRate(quota), isRefused };
}

type Line = ReturnType<typeof createLine>;
type Paced = { req: IncomingMessage; state: Partial<ApiContext['state']> };
/** Where a call waits, if it must, and what follows its answer. */
interface Place {
  line?: Line;
  key?: string;
  weight?: number;
  after?(ctx: ApiContext): void;
}

/** Paces the calls of a port. */
export interface Pace {
  /** Has a call wait for its turn, before anything else is made for it: collections copy all that hundreds which wait keep. */
  admit(req: IncomingMessage): Promise<void>;
  /** Goes on with an admitted call. */
  step: Step;
}

const admission = Symbol('admission');
type Admitted = IncomingMessage & { [admission]?: Pick<Place, 'after'> & Pick<Paced, 'state'> };

/** @param placeOf gets path and query of the target, which may be no URL */
function createPace(
  join: (paced: Paced, line: Line, key?: string, weight?: number) => Promise<void>,
  placeOf: (req: IncomingMessage, path: string, query: string) => Place,
): Pace {
  return {
    async admit(req: Admitted) {
      const target = (req.url ?? '').replace(/^https?:\/\/[^/?#]*/i, '');
      const [path = '', query = ''] = target.split('?', 2);
      const { line, key, weight, after } = placeOf(req, path, query);
      const state: Paced['state'] = {};
      Object.assign(req, { [admission]: { state, after } });
      if (line === undefined) return;
      await join({ req, state }, line, key, weight).catch((err: ApiError) => {
        // The edge answers it.
        state.refusal = err;
      });
    },
    async step(ctx, next) {
      const { state, after } = (ctx.req as Admitted)[admission] ?? {};
      Object.assign(ctx.state, state);
      try {
        await next();
      } finally {
        after?.(ctx);
      }
    },
  };
}

/** Lines for the calls of a process. */
export function createLines({ config, log, closing }: Pick<Services, 'config' | 'log' | 'closing'>) {
  const { TRUSTED_PROXIES: trusted } = config;
  const accounts = createLine(Math.ceil(config.ACCOUNT_RATE_PER_SECOND * 10));
  const strangers = createLine(config.strangersPerSecond);
  const health = createLine(healthPerSecond, false);
  const scrapes = createLine(scrapesPerSecond, false);
  const proxies = [...trusted, ...internal];
  const holdRefusal = holdRefusals(config.heldRefusalMs, closing);
  let isTold = false;

  async function join(paced: Paced, line: Line, key = '', weight = 1): Promise<void> {
    paced.state.line = key;
    const { waitMs } = line.rate.count(key, weight, maxWaitMs);
    if (waitMs > maxWaitMs && line.isRefused) {
      // Held before anything is made, logged or counted for it: a thousand that come at once cost least.
      await holdRefusal(paced);
      throw tooMany('Too many calls', line.quota, waitMs);
    }
    if (waitMs > 0) await hold(paced, Math.min(waitMs, maxWaitMs));
  }

  /** Paces calls of strangers by their network, but those that turn out not to come from one. */
  function amongStrangers(req: IncomingMessage, path: string, isKnown: (ctx: ApiContext) => boolean) {
    const address = clientAddress(req, trusted);
    if (!isTold && clientAddress(req, proxies) !== address) {
      isTold = true;
      log.warn({ address }, 'TRUSTED_PROXIES lacks this proxy: all of its callers count as one');
    }
    const network = networkOf(address);
    // Behind a proxy that is not trusted everybody has one address: those who turn out to be somebody do not count there.
    const after = (ctx: ApiContext) => {
      if (!ctx.state.refusal && isKnown(ctx)) strangers.rate.giveBack(network);
    };
    return { line: strangers, key: network, weight: weightOf(path), after };
  }

  return {
    /** Holds the answer of a refusal, unless it was held before. */
    holdRefusal,
    /** Paces every call of the operators' port. Operators are never refused: their work comes in bulk. */
    paceOperators(): Pace {
      const operators = new Remembered<true>(10_000);
      return createPace(join, (req, path): Place => {
        if (healthPaths.has(path)) return { line: health };
        if (path === '/metrics') return { line: scrapes };
        const { authorization, cookie } = req.headers;
        const given = secretHash(`${authorization} ${cookie}`);
        const place = operators.recall(given)
          ? undefined
          : amongStrangers(req, path, (ctx) => ctx.state.isOperator === true);
        const after = (ctx: ApiContext) => {
          place?.after(ctx);
          if (ctx.state.isOperator) operators.remember(given, true, performance.now() + knownForMs);
          else operators.forget(given);
        };
        return { ...place, after };
      });
    },
    /** Counts a call with the credentials of an account. @throws ApiError 429 */
    account: (paced: Paced, accountId: string) => join(paced, accounts, accountId),
    /** Paces every call. @param known the tokens found lately */
    pace: ({ findToken: { known } }: Pick<ApiDeps, 'findToken'>): Pace =>
      createPace(join, (req, path, query): Place => {
        const given = bearerToken({ req }) ?? queryToken(query);
        const token = known(given);
        if (path === '/enrichments' && token?.scopes.includes('enrichments')) return {};
        if (healthPaths.has(path)) return { line: health };
        if (token !== undefined) return { line: accounts, key: token.accountId, weight: weightOf(path) };
        const isToken = path.startsWith('/oauth/');
        const isKnown = ({ status }: ApiContext) => known(given) !== undefined || (isToken && status === 200);
        return amongStrangers(req, path, isKnown);
      }),
  };
}

const turns: Quota = { name: 'turns', calls: 1, windowSeconds: 1 };
const longestRestMs = 100;

/**
 * Returns a function that carries out the long calls of one line one after another. Taken at once, those of a burst would leave Redis
 * and the event loop no time for others; so they rest in between. A call that has waited too long is refused.
 */
export function oneByOne({ longestTurnMs }: Pick<Config, 'longestTurnMs'>) {
  const lastOf = new Map<string, Promise<void>>();
  return <T>({ state }: Pick<ApiContext, 'state'>, line: string, work: () => Promise<T>): Promise<T> => {
    const joinedAt = performance.now();
    const ahead = lastOf.get(line) ?? Promise.resolve();
    let restMs = 0;
    const turn = (async () => {
      const isLate = await withTimeout(
        ahead.then(() => false),
        longestTurnMs,
        () => true,
      );
      const begunAt = performance.now();
      state.waitedMs = (state.waitedMs ?? 0) + begunAt - joinedAt;
      if (isLate) throw tooMany('Too many calls of this account wait for their turn', turns, longestTurnMs);
      try {
        return await work();
      } finally {
        restMs = Math.min(longestRestMs, 2 * (performance.now() - begunAt));
      }
    })();
    const ended = turn
      .then(ignore, ignore)
      // One that has waited too long ends before those ahead of it.
      .then(() => ahead)
      .then(() => sleep(restMs))
      .then(() => {
        if (lastOf.get(line) === ended) lastOf.delete(line);
      });
    lastOf.set(line, ended);
    return turn;
  };
}

const queryToken = (query: string): string | undefined => /(?:^|&)access_token=([\w-]+)/.exec(query)?.[1];

/** Refused calls of one line that are answered in a second: each takes a third of a millisecond of the event loop. */
const refusalsPerSecond = 100;
/** The rest of a longer line waits for less: aborted calls, held as long, could take all connections of the process. */
const refusalLine = { atMost: 1500, restTimes: 5 };

/**
 * Returns a function that holds a 429 for about a second, or for as long as the refusals of its line need at their rate. Callers who
 * repeat a refused call at once, over any number of connections, would otherwise take the event loop with refusals. Random, so that
 * they do not all come again together.
 * @param closing ends each hold
 */
function holdRefusals(heldMs: number, closing?: AbortSignal) {
  const held = new Map<string, number>();
  const wait = createWaits(closing);
  return async (ctx: Paced): Promise<void> => {
    const { line = '', isHeld, waitedMs = 0 } = ctx.state;
    if (heldMs === 0 || isHeld) return;
    ctx.state.isHeld = true;
    const begun = performance.now();
    const count = (held.get(line) ?? 0) + 1;
    held.set(line, count);
    const { atMost, restTimes } = refusalLine;
    const times = count > atMost ? restTimes : Math.max(1, count / refusalsPerSecond);
    await hold(ctx, heldMs * times * (0.5 + Math.random()), wait);
    ctx.state.waitedMs = waitedMs + performance.now() - begun;
    const left = (held.get(line) ?? 1) - 1;
    if (left > 0) held.set(line, left);
    else held.delete(line);
  };
}

/** Meanwhile nothing more is read from the connection, or a caller who sends requests without waiting would fill our memory. */
async function hold(
  { req }: Paced,
  ms: number,
  wait: (ms: number) => Promise<unknown> = sleep,
): Promise<void> {
  req.socket.pause();
  await wait(ms);
  req.socket.resume();
}

/** Returns waits that end up to 10 ms late: a timer and a listener for each would be a fifth of what a held call keeps. */
function createWaits(closing?: AbortSignal) {
  const waiting = new Map<number, (() => void)[]>();
  const end = (tick: number) => {
    for (const goOn of waiting.get(tick) ?? []) goOn();
    waiting.delete(tick);
  };
  closing?.addEventListener('abort', () => [...waiting.keys()].forEach(end));
  return async (ms: number): Promise<void> => {
    const tick = Math.ceil((performance.now() + ms) / 10);
    const others = waiting.get(tick) ?? [];
    if (closing?.aborted) return;
    if (others.length === 0) {
      waiting.set(tick, others);
      setTimeout(end, tick * 10 - performance.now(), tick);
    }
    await new Promise<void>((goOn) => others.push(goOn));
  };
}
