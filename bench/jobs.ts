/**
 * What the processes of the benchmark say to each other. Times are `monotonicMs`.
 */

/** How much is sent: a fixed number at a time, or a fixed number per second whatever the answers do. */
export type Pace = { kind: 'concurrency'; publishers: number } | { kind: 'rate'; requestsPerSecond: number };

export interface EventsRequest {
  kind: 'events';
  accessToken: string;
  /** Each event goes to the next of these in turn. */
  clientTokens: string[];
  /** Every fifth event of the turns for it (`isDownTurn`) goes to this one instead. */
  downClientToken?: string;
  batchSize: number;
  /** Events in a row for one client; 1 by default. */
  eventsPerTurn?: number;
  /** How many events there are; as many as the time allows by default. */
  total?: number;
  segments: number;
  /** Assets per client that the events are spread over, in turn; 0: every event has an asset of its own. */
  assets: number;
  /** Begins the ids of assets whose segments the service has already (with `assets`): no event is to bring a notification. */
  known?: string;
  /** Tells the rounds' assets and events apart. */
  round: string;
}

export interface TokenRequest {
  kind: 'token';
  /** In turn. */
  accounts: { clientId: string; clientSecret: string }[];
  scope: string;
}

export interface RegistrationRequest {
  kind: 'registration';
  accessToken: string;
  /** Each once: the round ends with them. */
  clientTokens: string[];
  receiverUrl: string;
}

export interface Job {
  /** Each request goes to the next of these in turn. */
  baseUrls: string[];
  connections: number;
  pace: Pace;
  warmUpMs: number;
  durationMs: number;
  request: EventsRequest | TokenRequest | RegistrationRequest;
  /** Sends single events through clients/node, as this account, instead of a connection for each request. */
  through?: { clientId: string; clientSecret: string };
}

/** One request: `at` when it was sent (or, at a fixed rate, should have been), `answeredAt` its last byte. */
export interface Answers {
  at: number[];
  answeredAt: number[];
}

export interface PublishedEvents {
  notificationIds: string[];
  at: number[];
  /** True for those that went to `downClientToken`. */
  down: boolean[];
  /** As `Arrivals.assets`. */
  assets: string[];
}

export interface Published {
  /** The measured window: from the end of the warm-up. */
  from: number;
  to: number;
  answers: Answers;
  events: PublishedEvents;
  /** Answers by status (or error code) other than success; a 503 was sent again and is counted each time. */
  refusals: Record<string, number>;
  /** Requests without a final answer, and what was wrong with those that had an unexpected one. */
  givenUp: number;
  oddity?: string;
}

export type ToPublisher = { kind: 'publish'; job: Job };
export type FromPublisher =
  | { kind: 'ready' }
  | { kind: 'measuring' }
  | { kind: 'measured' }
  | { kind: 'published'; published: Published };

/** The POSTs that the receiver has answered with 204. */
export interface Arrivals {
  ids: string[];
  at: number[];
  /** When each was answered. */
  endedAt: number[];
  /** `<path> <body>` of each: which asset of which client. */
  assets: string[];
  /** Ids whose first POST was answered with 503. */
  refused: string[];
  /** POSTs without an answer at one time, of the path that had the most. */
  mostInFlight: number;
}

export interface ReceiverBehaviour {
  /** Before it answers. */
  latencyMs: number;
  /** Every answer says `Connection: close`. */
  closesConnections: boolean;
  /** One in ten ids is answered 503 at first. */
  refusesOneInTen: boolean;
}

/** `collect` hands over what was answered since the last time, and forgets it. */
export type ToReceiver = { kind: 'behave'; behaviour: ReceiverBehaviour } | { kind: 'collect' };
export type FromReceiver = { kind: 'ready'; port: number } | { kind: 'collected'; arrivals: Arrivals };
