/** What callers and receivers have seen, and nothing that the service keeps: all that an oracle may judge by. Times are ms. */

/** From when a call was made to when it was answered; a call that was lost and repeated counts from its first try. */
export interface Span {
  from: number;
  to: number;
}

/** One POST of a notification, as the receiver met it. */
export interface Post {
  id: string;
  url: string;
  platformId: string;
  at: number;
  /** When its answer was sent, or its connection ended. */
  endedAt?: number;
  /** It was answered 2xx. */
  isOk?: boolean;
}

/** What a site is told to be. */
export interface SiteState {
  url: string | undefined;
  isPaused: boolean;
  quietSeconds: number;
}

/** What was done to an asset and was answered with success. */
export type Act = Span &
  (
    | { kind: 'event'; id: string; isRepeat: boolean }
    /** `tries`: when each try began, if some were lost: each may have been carried out. */
    | { kind: 'redeliver'; id: string; tries: number[] }
    /** `forget` and `cancel` take back what is owed. */
    | { kind: 'forget' | 'cancel' }
    /** `replay` makes the newest owed again if it was delivered in time. */
    | { kind: 'replay' }
  );

export interface EnrichmentEvent {
  event_id: string;
  client_token: string;
  platform_id: string;
  segments: string[];
  notify?: boolean;
  priority?: string;
}

export class Asset {
  /** One act at a time: what follows an answer was decided after it. */
  isBusy = false;
  /** Of this round, in the order in which they began. */
  acts: Act[] = [];
  known = new Set<string>();
  /** Events since the asset was last forgotten that made a notification, the newest last. */
  queued: { event: EnrichmentEvent; id: string }[] = [];
  /** Notifications of any time, the newest last. */
  readonly ids = new Set<string>();

  constructor(
    readonly site: Site,
    readonly platformId: string,
  ) {}

  /** Notes acts where they began: what a stopped process answers late began before what was answered meanwhile. */
  note(...acts: Act[]): void {
    this.acts.push(...acts);
    this.acts.sort((a, b) => a.from - b.from);
  }
}

export class Site {
  isBusy = false;
  readonly assets = new Map<string, Asset>();
  posts: Post[] = [];
  /** What `delivered_until` was said to be, and when that was answered. */
  watermarks: { until: number; at: number }[] = [];
  /** How many POSTs had failed in a row when the round began. */
  #failedBefore = 0;
  #states: { from: number; to: number; state: SiteState }[];

  constructor(
    readonly clientToken: string,
    state: SiteState,
  ) {
    this.#states = [{ from: 0, to: 0, state }];
  }

  get state(): SiteState {
    return (this.#states.at(-1) as { state: SiteState }).state;
  }

  /** Notes a change while it is under way: until it is answered, both states are possible. */
  async change<T>(to: Partial<SiteState>, call: () => Promise<T>): Promise<T> {
    const entry = { from: Date.now(), to: Infinity, state: { ...this.state, ...to } };
    this.#states.push(entry);
    const answer = await call();
    entry.to = Date.now();
    return answer;
  }

  /** Returns the states that may have held at some time of the span. */
  statesIn({ from, to }: Span): SiteState[] {
    const all = this.#states;
    return all.flatMap((one, i) => (one.from <= to && (all[i + 1]?.to ?? Infinity) >= from ? one.state : []));
  }

  /** Returns how many POSTs had failed since the last success, at that time. */
  failuresInARow(at: number): number {
    const ended = this.posts.filter(({ endedAt = Infinity }) => endedAt <= at);
    ended.sort((a, b) => (a.endedAt ?? 0) - (b.endedAt ?? 0));
    const lastOk = ended.findLastIndex(({ isOk }) => isOk);
    return ended.length - 1 - lastOk + (lastOk < 0 ? this.#failedBefore : 0);
  }

  /** Begins a round. */
  forget(): void {
    this.#failedBefore = this.failuresInARow(Infinity);
    this.posts = [];
    this.watermarks = [];
    for (const asset of this.assets.values()) asset.acts = [];
  }
}

/** What was done to the system itself; `busy`: a call took long, as on a busy machine. */
export interface Disturbance extends Span {
  kind: 'kill' | 'killRedis' | 'stop' | 'step' | 'leap' | 'busy';
  what: string;
}

export class Facts {
  readonly sites: Site[] = [];
  readonly disturbances: Disturbance[] = [];
  /** Answers that no caller should get. */
  readonly wrong: string[] = [];

  /** Returns whether something of these kinds was going on in that time. */
  disturbed({ from, to }: Span, ...kinds: Disturbance['kind'][]): boolean {
    return this.disturbances.some((one) => kinds.includes(one.kind) && one.from <= to && one.to >= from);
  }

  /** Begins a round: everything has ended and was judged. */
  forget(): void {
    this.wrong.length = 0;
    for (const site of this.sites) site.forget();
  }
}
