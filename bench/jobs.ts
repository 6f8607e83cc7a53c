/** The messages between the processes of the benchmark. Times are `monotonicMs`. */

/** The pace of a load: a fixed number of requests at any time, or a fixed number per second, however slow the answers are. */
export type Pace = { kind: 'concurrency'; publishers: number } | { kind: 'rate'; requestsPerSecond: number };

export interface Job {
  /** Requests go to these addresses in turn. */
  baseUrls: string[];
  pace: Pace;
  warmUpMs: number;
  durationMs: number;
  accessToken: string;
  /** Events go to these clients in turn. */
  clientTokens: string[];
  batchSize: number;
  /** Events in a row for one client. */
  eventsPerTurn: number;
  /** The number of events; by default as many as the time allows. */
  total?: number;
  /** The events bring only what `makeKnown` (theatre.ts) made known: none makes a notification. */
  isKnown: boolean;
  /** Part of the ids of assets and events, different in each round. */
  round: string;
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
  /** Times of the requests that succeeded. `at`: sent, or at a fixed rate due; `answeredAt`: the last byte of the answer. */
  answers: { at: number[]; answeredAt: number[] };
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

export const noNotifications = (): NotificationList => ({ ids: [], at: [], assets: [] });

export interface ReceiverBehaviour {
  /** Pause before each answer. */
  latencyMs: number;
  /** Every answer has `Connection: close`. */
  closesConnections: boolean;
  /** The first POST of one in ten ids is answered 503. */
  refusesOneInTen: boolean;
  /** Nothing listens. */
  isDown: boolean;
}

export const usualBehaviour: ReceiverBehaviour = {
  latencyMs: 0,
  closesConnections: false,
  refusesOneInTen: false,
  isDown: false,
};

/** `collect` returns the POSTs answered with 204 since the last `collect`. */
export type ToReceiver = { kind: 'behave'; behaviour: ReceiverBehaviour } | { kind: 'collect' };
export type FromReceiver =
  | { kind: 'ready'; port: number }
  | { kind: 'collected'; arrivals: NotificationList };
