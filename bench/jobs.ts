/** The messages between the processes of the benchmark. Times are `monotonicMs`. */

/** The load: a fixed number of requests at any time, or a fixed number per second, however slow the answers are. */
export type Pace = { kind: 'concurrency'; publishers: number } | { kind: 'rate'; requestsPerSecond: number };

export interface EventsRequest {
  kind: 'events';
  accessToken: string;
  /** Events go to these clients in turn. */
  clientTokens: string[];
  batchSize: number;
  /** Events in a row for one client; 1 by default. */
  eventsPerTurn?: number;
  /** The number of events; by default as many as the time allows. */
  total?: number;
  segments: number;
  /** Assets of each client, which get events in turn; 0: every event has its own asset. */
  assets: number;
  /** The prefix of assets whose segments are already known (with `assets`): no event makes a notification. */
  known?: string;
  /** Part of the ids of assets and events, different in each round. */
  round: string;
}

export interface TokenRequest {
  kind: 'token';
  account: { clientId: string; clientSecret: string };
  scope: string;
}

export interface Job {
  /** Requests go to these addresses in turn. */
  baseUrls: string[];
  connections: number;
  pace: Pace;
  warmUpMs: number;
  durationMs: number;
  request: EventsRequest | TokenRequest;
}

/** Times of requests. `at`: sent, or at a fixed rate due; `answeredAt`: the last byte of the answer. */
export interface Answers {
  at: number[];
  answeredAt: number[];
}

/** Notifications, either announced by answers or arrived. */
export interface NotificationList {
  ids: string[];
  at: number[];
  /** `<path> <body>` of each, which names the client and the asset. */
  assets: string[];
}

export interface Published {
  /** The measured window: from the end of the warm-up. */
  from: number;
  to: number;
  answers: Answers;
  events: NotificationList;
  /** Answers other than success, by status or error code. A request that was repeated after 503 counts each time. */
  refusals: Record<string, number>;
  /** Requests without success in the end. `oddity` is the first unexpected answer. */
  givenUp: number;
  oddity?: string;
}

export type ToPublisher = { kind: 'publish'; job: Job };
export type FromPublisher =
  | { kind: 'ready' }
  | { kind: 'measuring' }
  | { kind: 'measured' }
  | { kind: 'published'; published: Published };

/** POSTs that the receiver answered with 204. */
export interface Arrivals extends NotificationList {
  /** Ids whose first POST was answered with 503. */
  refused: string[];
  /** The most POSTs without an answer at one time to one path. */
  mostInFlight: number;
}

export const noArrivals = (): Arrivals => ({ ids: [], at: [], assets: [], refused: [], mostInFlight: 0 });

export interface ReceiverBehaviour {
  /** Pause before each answer. */
  latencyMs: number;
  /** Every answer has `Connection: close`. */
  closesConnections: boolean;
  /** The first POST of one in ten ids is answered 503. */
  refusesOneInTen: boolean;
}

/** `collect` returns the POSTs answered since the last `collect`. */
export type ToReceiver = { kind: 'behave'; behaviour: ReceiverBehaviour } | { kind: 'collect' };
export type FromReceiver = { kind: 'ready'; port: number } | { kind: 'collected'; arrivals: Arrivals };
