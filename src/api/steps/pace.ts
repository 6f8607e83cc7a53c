/**
 * Paces calls in the memory of each process, so that nobody's flood takes the event loop from the others. An account's calls wait in
 * its line, those without a known token in the line of the caller's network. A call that would wait for more than a second is refused.
 * Two kinds have their own way: publishing is paced by what is accepted (delivery/hands.ts), and health checks are never refused,
 * or a stranger could have the balancer take every process out.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../config.js';
import { type Quota, tooMany } from '../../http/apiError.js';
import { clientAddress, networkOf } from '../../http/clientAddress.js';
import type { ApiContext, Step } from '../../http/context.js';
import { OwnRate } from '../../http/rates.js';
import type { Logger } from '../../log.js';
import { ignore } from '../../redis/connection/unavailable.js';
import type { ApiDeps } from '../deps.js';
import { bearerToken } from './publisher.js';

const maxWaitMs = 1000;
const healthPerSecond = 1000;
/** How many calls sending a file of the description costs as much as: they have up to 1.7 MB. */
const weights: [path: RegExp, weight: number][] = [
  [/^\/(openapi\.json|docs\/swagger)/, 30],
  [/^\/docs/, 10],
];

/** Where proxies are, but no stranger, who may send X-Forwarded-For too. */
const internal = ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '127.0.0.0/8', 'fc00::/7'];

/** Returns lines by key: each lets so many calls pass in a second, as many at once, and as many again after a wait. */
function createLine(perSecond: number, isRefused = true) {
  const quota: Quota = { name: 'calls', calls: perSecond, windowSeconds: 1 };
  return { quota, rate: new OwnRate(quota), isRefused };
}

type Line = ReturnType<typeof createLine>;

/** Lines for the calls of a process. */
export function createLines({ TRUSTED_PROXIES: trusted, ...config }: Config, log: Logger) {
  const accounts = createLine(Math.ceil(config.ACCOUNT_RATE_PER_SECOND * 10));
  const strangers = createLine(config.strangersPerSecond);
  const health = createLine(healthPerSecond, false);
  const proxies = [...trusted, ...internal];
  let isTold = false;

  async function join(ctx: Pick<ApiContext, 'req'>, line: Line, key: string, weight = 1): Promise<void> {
    const { waitMs } = line.rate.count(key, weight, maxWaitMs);
    if (waitMs > maxWaitMs && line.isRefused) throw tooMany('Too many calls', line.quota, waitMs);
    if (waitMs > 0) await hold(ctx, Math.min(waitMs, maxWaitMs));
  }

  return {
    /** Counts a call with the credentials of an account. @throws ApiError 429 */
    account: (ctx: Pick<ApiContext, 'req'>, accountId: string) => join(ctx, accounts, accountId),
    /** Paces every call. @param known the tokens found lately */
    pace:
      ({ findToken: { known } }: Pick<ApiDeps, 'findToken'>): Step =>
      (ctx, next) => {
        const given = bearerToken(ctx) ?? queryToken(ctx.querystring);
        const token = known(given);
        if (ctx.path === '/enrichments' && token?.scopes.includes('enrichments')) return next();
        if (ctx.path === '/healthz' || ctx.path === '/readyz') return join(ctx, health, '').then(next);
        const weight = weights.find(([path]) => path.test(ctx.path))?.[1] ?? 1;
        if (token !== undefined) return join(ctx, accounts, token.accountId, weight).then(next);
        const address = clientAddress(ctx.req, trusted);
        if (!isTold && clientAddress(ctx.req, proxies) !== address) {
          isTold = true;
          log.warn({ address }, 'TRUSTED_PROXIES lacks this proxy: all of its callers count as one');
        }
        const network = networkOf(address);
        return join(ctx, strangers, network, weight)
          .then(next)
          .then(() => {
            // Behind a proxy that is not trusted everybody has one address: those who turn out to be somebody do not count there.
            const isSomebody =
              known(given) !== undefined || (ctx.path.startsWith('/oauth/') && ctx.status === 200);
            if (isSomebody) strangers.rate.giveBack(network);
          });
      },
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
    const ahead = lastOf.get(line);
    let begunAt = joinedAt;
    const turn = (async () => {
      if (ahead !== undefined) {
        await ahead;
        begunAt = performance.now();
      }
      const waitedMs = begunAt - joinedAt;
      state.waitedMs = (state.waitedMs ?? 0) + waitedMs;
      if (waitedMs > longestTurnMs)
        throw tooMany('Too many calls of this account wait for their turn', turns, longestTurnMs);
      return await work();
    })();
    const ended = turn
      .then(ignore, ignore)
      .then(() => sleep(Math.min(longestRestMs, 2 * (performance.now() - begunAt))))
      .then(() => {
        if (lastOf.get(line) === ended) lastOf.delete(line);
      });
    lastOf.set(line, ended);
    return turn;
  };
}

const queryToken = (query: string): string | undefined => /(?:^|&)access_token=([\w-]+)/.exec(query)?.[1];

/**
 * Holds a 429 for about a second. Callers who repeat a refused call at once would otherwise take the event loop with refusals.
 * Random, so that they do not all come again together.
 */
export async function holdRefusal(ctx: Pick<ApiContext, 'req'>, heldMs: number): Promise<void> {
  if (heldMs > 0) await hold(ctx, heldMs * (0.5 + Math.random()));
}

/** Meanwhile nothing more is read from the connection, or a caller who sends requests without waiting would fill our memory. */
async function hold({ req }: Pick<ApiContext, 'req'>, ms: number): Promise<void> {
  req.socket.pause();
  await sleep(ms);
  req.socket.resume();
}
