/** A platform, publishers and operators who do whatever they may, at random, and note what they were answered. */
import { setTimeout as pause } from 'node:timers/promises';
import { startLoop } from '../load.js';
import { Asset, type EnrichmentEvent, type Facts, type Site, type SiteState, type Span } from './facts.js';
import { isKept, oldestKept } from './properties.js';
import type { Random } from './random.js';

export type Process = 'api' | 'api2';

/** The system, as those who call it see it. */
export interface Reach {
  facts: Facts;
  random: Random;
  urls: Record<Process, { api: string; admin: string }>;
  tokens: Record<'platform' | 'publisher' | 'operator', string>;
  /** Gets tokens in the place of those that Redis no longer has. */
  renewTokens(): Promise<void>;
  receiverUrls: readonly string[];
  /** Resolves when nothing runs any more of what this process was asked to do until now. */
  untilOver(part: Process): Promise<void>;
  isStopped(part: Process): boolean;
}

export type User = ReturnType<typeof createUser>;

const lostAfterMs = 3000;
/** A call that takes longer tells of a busy machine, or of a process that is stopped. */
const slowAfterMs = 1000;
const assetsPerSite = 20;

const weights = {
  publish: 45,
  batch: 8,
  repeat: 8,
  forget: 9,
  cancel: 5,
  redeliver: 4,
  replay: 0.5,
  recover: 0.5,
  pause: 1.5,
  resume: 3,
  register: 2,
  reset: 0.7,
  change: 1,
  quiet: 1.5,
  watermark: 8,
  look: 4,
};

export function createUser(reach: Reach) {
  const { facts, random, tokens } = reach;
  let count = 0;
  const calls = new Map<string, number>();

  /** Calls one of the processes until it is answered. What has no answer may still run: the call ends once it no longer can. */
  async function call(
    door: 'api' | 'admin',
    token: keyof Reach['tokens'],
    method: string,
    path: string,
    body?: object,
  ) {
    const from = Date.now();
    const lost: Process[] = [];
    for (const begun = [from]; ; begun.push(Date.now())) {
      const all: Process[] = ['api', 'api2'];
      const there = all.filter((part) => !reach.isStopped(part));
      // A caller who does not know it calls a stopped process, too.
      const part = random.one(there.length === 0 || random.isOnce(0.1) ? all : there);
      const answer = await ask(part, door, tokens[token], method, path, body);
      const [again, to] = [begun.at(-1) as number, Date.now()];
      if (to > again + slowAfterMs) facts.disturbances.push({ kind: 'busy', what: path, from: again, to });
      if (answer?.status === 401) {
        await reach.renewTokens();
        begun.pop();
        continue;
      }
      // Sending an event again is always safe; what else was lost is repeated when it no longer can run.
      const isEvent = path === '/enrichments';
      if (answer === undefined) {
        if (isEvent) lost.push(part);
        else await reach.untilOver(part);
        await pause(50);
        continue;
      }
      for (const other of lost) await reach.untilOver(other);
      return { ...answer, from, begun, isAgain: begun.length > 1, to: Date.now(), tries: lost.length };
    }
  }

  /** Undefined for a 408 or 503, and where no whole answer came in time. */
  async function ask(
    part: Process,
    door: 'api' | 'admin',
    token: string,
    method: string,
    path: string,
    body?: object,
  ) {
    try {
      const answer = await fetch(reach.urls[part][door] + path, {
        method,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: body && JSON.stringify(body),
        signal: AbortSignal.timeout(lostAfterMs),
      });
      // biome-ignore lint/suspicious/noExplicitAny: whatever was answered
      const said = (await answer.json()) as any;
      // 408: a stopped process wakes to a request that has waited for too long.
      return [408, 503].includes(answer.status) ? undefined : { status: answer.status, body: said };
    } catch {
      return undefined;
    }
  }

  const operate = (path: string, body: object) =>
    call('admin', 'operator', 'POST', `/operator/${path}`, body);

  function blame(what: string, answer: { status: number; body: unknown }): void {
    facts.wrong.push(`${what} was answered ${answer.status} ${JSON.stringify(answer.body)}`);
  }

  /** Does something with an asset alone. */
  async function withAssets(assets: readonly (Asset | undefined)[], act: () => Promise<void>): Promise<void> {
    if (assets.some((asset) => asset === undefined || asset.isBusy)) return;
    for (const asset of assets) if (asset) asset.isBusy = true;
    await act();
    for (const asset of assets) if (asset) asset.isBusy = false;
  }

  async function withSite(site: Site, act: () => Promise<void>): Promise<void> {
    if (site.isBusy) return;
    site.isBusy = true;
    await act();
    site.isBusy = false;
  }

  function anyAsset(): Asset {
    const site = random.one(facts.sites);
    const platformId = `video-${Math.floor(random.between(0, assetsPerSite))}`;
    const asset = site.assets.get(platformId) ?? new Asset(site, platformId);
    site.assets.set(platformId, asset);
    return asset;
  }

  /** One with an attempt under way is the more interesting. */
  function assetInFlight(): Asset {
    const under = facts.sites.flatMap((site) =>
      site.posts.flatMap(({ endedAt, platformId }) =>
        endedAt === undefined ? (site.assets.get(platformId) ?? []) : [],
      ),
    );
    return under.length > 0 && random.isOnce(0.6) ? random.one(under) : anyAsset();
  }

  function newEvent({ site, platformId, known }: Asset): EnrichmentEvent {
    const n = ++count;
    const [old] = known;
    const fresh = random.isOnce(0.92) ? [`s${n}`] : [];
    return {
      event_id: `e${n}`,
      client_token: site.clientToken,
      platform_id: platformId,
      segments: old !== undefined && random.isOnce(0.2) ? [old, ...fresh] : fresh,
      ...(random.isOnce(0.2) && { priority: 'backfill' }),
      ...(random.isOnce(0.05) && { notify: false }),
    };
  }

  /** @param first when the first try of these events began, if its answer was that they are unknown */
  async function publish(
    assets: readonly Asset[],
    events: readonly EnrichmentEvent[],
    first?: number,
  ): Promise<void> {
    const isBatch = events.length > 1;
    const body = isBatch ? { events } : (events[0] as object);
    const last = await call('api', 'platform', 'POST', '/enrichments', body);
    const answer = first === undefined ? last : { ...last, from: first, tries: last.tries + 1 };
    if (answer.status !== 202) return blame(JSON.stringify(body), answer);
    const results = isBatch ? answer.body.results : [answer.body];
    // An item of a batch may be unknown while others are accepted.
    const unknown = [...events.keys()].filter((i) => results[i].code === 'temporarily_unavailable');
    for (const [i, event] of events.entries()) {
      const asset = assets[i] as Asset;
      if (!unknown.includes(i)) noteAnswer(asset, event, results[i], answer);
      else {
        await pause(lostAfterMs);
        await publish([asset], [event], answer.from);
      }
    }
  }

  // biome-ignore lint/suspicious/noExplicitAny: whatever was answered
  function noteAnswer(asset: Asset, event: EnrichmentEvent, said: any, span: Span & { tries: number }): void {
    const states = asset.site.statesIn(span);
    const before = asset.queued.find((one) => one.event.event_id === event.event_id);
    const brings = event.segments.some((segment) => !asset.known.has(segment));
    // An unanswered try may have brought them.
    const isNew = !brings ? [false] : span.tries > 0 ? [true, false] : [true];
    const allowed = states.flatMap(({ url }) =>
      isNew.flatMap((one) => {
        if (event.notify === false) return ['silent'];
        if (url === undefined) return ['not_registered'];
        return one || before !== undefined ? ['queued'] : ['no_new_segments'];
      }),
    );
    if (before !== undefined) allowed.push('queued', 'no_new_segments');
    const got = said.notification === 'none' ? said.reason : said.notification;
    for (const segment of event.segments) asset.known.add(segment);
    if (!allowed.includes(got)) {
      const { platformId } = asset;
      facts.wrong.push(`${event.event_id} of ${platformId}: ${JSON.stringify(said)} instead of ${allowed}`);
    }
    if (got !== 'queued') return;
    const id = String(said.notification_id);
    if (before !== undefined && before.id !== id)
      facts.wrong.push(`${event.event_id} has ids ${before.id}, ${id}`);
    // A receiver does nothing for an id that it knows.
    if (before === undefined && asset.ids.has(id))
      facts.wrong.push(`${event.event_id} has the known id ${id}`);
    const isHeld = states.map(({ isPaused }) => isPaused);
    if (!isHeld.includes(said.held === 'paused')) facts.wrong.push(`${event.event_id} is held: ${said.held}`);
    asset.note({ kind: 'event', id, isRepeat: before !== undefined, from: span.from, to: span.to });
    asset.ids.add(id);
    if (before === undefined) asset.queued.push({ event, id });
  }

  const changeSite = (site: Site, to: Partial<SiteState>, path: string, more = {}) =>
    site.change(to, async () => {
      const answer = await operate(path, { client_token: site.clientToken, ...more });
      // A lost try may have removed the URL.
      const isDone = to.url === undefined && answer.status === 404 && answer.isAgain;
      if (answer.status !== 200 && !isDone) blame(path, answer);
    });

  const newUrl = (site: Site) => `${random.one(reach.receiverUrls)}/${site.clientToken}/${++count}`;

  const acts: Record<keyof typeof weights, () => Promise<void>> = {
    async publish() {
      const asset = anyAsset();
      await withAssets([asset], () => publish([asset], [newEvent(asset)]));
    },
    async batch() {
      const several = Math.floor(random.between(2, 9));
      const assets = [...new Set(Array.from({ length: several }, anyAsset))].filter(({ isBusy }) => !isBusy);
      if (assets.length > 1) await withAssets(assets, () => publish(assets, assets.map(newEvent)));
    },
    async repeat() {
      const asset = assetInFlight();
      const again = asset.queued.length > 0 ? random.one(asset.queued.slice(-2)).event : undefined;
      if (again) await withAssets([asset], () => publish([asset], [again]));
    },
    async forget() {
      const asset = assetInFlight();
      await withAssets([asset], async () => {
        const { site, platformId, queued } = asset;
        const path = `/assets/${platformId}?client_token=${site.clientToken}`;
        const answer = await call('api', 'platform', 'DELETE', path);
        if (answer.status !== 200) return blame(`DELETE of ${platformId}`, answer);
        const last = queued.at(-1)?.event;
        asset.note({ kind: 'forget', from: answer.from, to: answer.to });
        asset.known = new Set();
        asset.queued = [];
        if (last && random.isOnce(0.4)) await publish([asset], [last]);
      });
    },
    async cancel() {
      const asset = assetInFlight();
      await withAssets([asset], async () => {
        const id = asset.queued.at(-1)?.id;
        if (id === undefined) return;
        const answer = await operate('notification/cancel', { notification_id: id });
        // It may have ended, or a lost try has cancelled it.
        const path = `/notifications/${id}?client_token=${asset.site.clientToken}`;
        const wasLost = answer.status === 409 && answer.isAgain;
        const { body } = wasLost ? await call('api', 'publisher', 'GET', path) : answer;
        // Its record may be gone: others have ended since, or Redis' clock was ahead. A lost try may have cancelled it before that.
        if (answer.status === 404 && !answer.isAgain) return;
        if (answer.status === 409 && body.state !== 'cancelled') return;
        if (![200, 404, 409].includes(answer.status)) return blame(`cancel of ${id}`, answer);
        asset.note({ kind: 'cancel', from: answer.from, to: answer.to });
        if (random.isOnce(0.5)) await redeliver(asset, id);
      });
    },
    async redeliver() {
      const asset = assetInFlight();
      const id = asset.queued.length > 0 ? random.one(asset.queued.slice(-3)).id : undefined;
      if (id) await withAssets([asset], () => redeliver(asset, id));
    },
    async replay() {
      const site = random.one(facts.sites);
      await withSite(site, async () => {
        const since = new Date(Date.now() - 600_000).toISOString();
        const from = Date.now();
        const answer = await operate('notification/replay', { client_token: site.clientToken, since });
        // One that a kill has interrupted may still run.
        if (answer.status === 409) return;
        if (answer.status !== 200) return blame('a replay', answer);
        // Other acts overlap with it: it comes before or after them.
        for (const asset of site.assets.values())
          asset.note(
            ...[from, answer.to].map((at) => ({ kind: 'replay' as const, from: at, to: answer.to })),
          );
      });
    },
    async recover() {
      const { clientToken } = random.one(facts.sites);
      const since = new Date(Date.now() - 3_600_000).toISOString();
      const answer = await operate('notification/recover', { client_token: clientToken, since });
      // Nothing fails for good in so short a time, whatever a clock says.
      if (answer.status !== 200 || answer.body.count > 0) blame('a recover', answer);
    },
    async pause() {
      const site = random.one(facts.sites);
      await withSite(site, () => changeSite(site, { isPaused: true }, 'registration/pause'));
    },
    async resume() {
      const site = random.one(facts.sites);
      await withSite(site, () => changeSite(site, { isPaused: false }, 'registration/resume'));
    },
    async register() {
      const site = facts.sites.find(({ state }) => state.url === undefined);
      if (site) await withSite(site, () => register(site));
    },
    async reset() {
      const site = random.one(facts.sites);
      if (site.state.url === undefined) return;
      await withSite(site, () => changeSite(site, { url: undefined }, 'registration/reset'));
    },
    async change() {
      const site = random.one(facts.sites);
      if (site.state.url === undefined) return;
      const url = newUrl(site);
      await withSite(site, () => changeSite(site, { url }, 'registration/change', { url }));
    },
    async watermark() {
      const site = random.one(facts.sites);
      const path = `/push_notifications?client_token=${site.clientToken}`;
      const answer = await call('api', 'publisher', 'GET', path);
      if (answer.status === 404) return;
      if (answer.status !== 200) return blame('what is registered', answer);
      const until = Date.parse(answer.body.delivered_until);
      if (!Number.isNaN(until)) site.watermarks.push({ until, at: answer.to });
    },
    async look() {
      const site = random.one(facts.sites);
      const { asset, event } = oldestKept(facts, site) ?? {};
      if (!asset || !event) return;
      const path = `/notifications/${event.id}?client_token=${site.clientToken}`;
      const answer = await call('api', 'publisher', 'GET', path);
      if (answer.status !== 200 && isKept(facts, asset, event)) blame(`a look at ${event.id}`, answer);
    },
    async quiet() {
      const site = random.one(facts.sites);
      const quietSeconds = random.one([0, 0, 3, 8]);
      await withSite(site, () =>
        changeSite(site, { quietSeconds }, 'client/set', { quiet_seconds: quietSeconds }),
      );
    },
  };

  async function register(site: Site): Promise<void> {
    const url = newUrl(site);
    await site.change({ url }, async () => {
      const query = new URLSearchParams({ client_token: site.clientToken, url });
      const path = `/register_push_notifications?${query}`;
      const answer = await call('api', 'publisher', 'POST', path);
      // A lost try may have registered it: its answer was sent.
      const wasLost = answer.body.code === 'already_registered' && answer.isAgain;
      if (answer.status !== 200 && !wasLost) blame('a registration', answer);
    });
  }

  async function redeliver(asset: Asset, id: string): Promise<void> {
    const answer = await operate('notification/redeliver', { notification_id: id });
    // Without a URL nothing can be sent; the record of a forgotten one may be gone.
    const { from, begun, to } = answer;
    if (answer.status === 404) {
      // A lost try may have made it owed before that.
      if (answer.isAgain) asset.note({ kind: 'replay', from, to });
      return;
    }
    if (answer.status !== 200) return blame(`redeliver of ${id}`, answer);
    asset.note({ kind: 'redeliver', id: String(answer.body.notification_id), from, to, tries: begun });
  }

  return {
    /** How often each was done. */
    calls,
    /** Goes on until it is stopped. @returns what stops it, once nothing is under way any more */
    start(loops: number, pauseMs: number): () => Promise<void> {
      const once = async () => {
        const kind = random.weighted(weights);
        calls.set(kind, (calls.get(kind) ?? 0) + 1);
        await acts[kind]();
      };
      const stops = Array.from({ length: loops }, () =>
        startLoop(once, () => random.between(0, 2 * pauseMs)),
      );
      return async () => void (await Promise.all(stops.map((stop) => stop())));
    },
    /** Returns whether a site is owed nothing any more, and no replay runs. */
    async isOver({ clientToken }: Site): Promise<boolean> {
      const path = `/push_notifications?client_token=${clientToken}`;
      const { body } = await call('api', 'publisher', 'GET', path);
      return body.owed === 0 && !body.replay?.running;
    },
    /** Leaves a site so that everything owed can go out. */
    async open(site: Site): Promise<void> {
      if (site.state.url === undefined) await register(site);
      await changeSite(site, { isPaused: false }, 'registration/resume');
    },
  };
}
