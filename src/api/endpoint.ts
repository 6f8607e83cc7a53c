/** Declares the calls of the API, each once: the router carries out a declaration, and `/openapi.json` describes it. */
import type { Middleware } from 'koa';
import { z } from 'zod';
import { ApiError } from './apiError.js';
import type { ErrorCode } from './errors.js';
import { clientTokenText } from './reference/schemas.js';
import { type ApiDeps, composeSteps, type Step } from './step.js';
import { readJson } from './steps/json.js';
import type { AccountRate } from './steps/limits.js';
import { type PublisherState, requireOwnClient, requireToken, type TokenState } from './steps/publisher.js';
import { refuseUnknownParameters } from './steps/query.js';

/** The groups of calls, in the order of the description. */
export const tags = {
  Tokens: 'Exchange the credentials of an account for an access token.',
  Registration: 'The one URL of a client.',
  Endpoint: 'Clients, the state of their endpoints, signing secrets, tests.',
  Notifications: 'The notifications of a client: state, attempts, redelivery.',
  Notices:
    'Messages to an account about its endpoints that fail or recover, and its secrets that are rotated.',
  Publishing: 'For the platform: publish the segments that analysis found.',
  Service: 'Health checks and this description.',
};

export interface Description {
  method: 'get' | 'post' | 'put' | 'delete';
  /** With the parameters of the path in braces. */
  path: string;
  operationId: string;
  tag: keyof typeof tags;
  summary: string;
  description: string;
  /** `token`: in the header; `tokenAnywhere`: also in the query; a scope that the token must have. */
  security?: 'token' | 'tokenAnywhere' | { scope: string };
  /** The parameters of the query, each with a description and an example. */
  query?: z.ZodObject;
  inPath?: z.ZodObject;
  body?: Body;
  /** The answers other than errors, by status. */
  answers: Record<number, Answer>;
  /** The errors, without those that any call may answer. */
  codes: readonly ErrorCode[];
  /** The rate of the account that the call counts towards. */
  rate?: AccountRate;
  under?: 'oauth';
  /** What a caller does after 503 or no answer, for a call that changes or sends something: one sentence after "After 503". */
  after503?: string;
}

interface Body {
  schema: z.ZodType;
  /** The content types; JSON if absent. */
  types?: readonly string[];
  /** By what each shows. */
  examples: Record<string, unknown>;
}

interface Answer {
  what: string;
  /** Of the JSON. Absent: `type` says what the answer is. */
  schema?: z.ZodType;
  type?: string;
  headers?: Record<string, unknown>;
}

export interface Endpoint extends Description {
  middlewares: (deps: ApiDeps) => Middleware[];
}

interface Steps<State> {
  /** The steps in their order; of a call about a client those after the caller and the client are known and the body is read. */
  steps: (deps: ApiDeps) => Step<State>[];
}

/** Declares a call whose steps are all its own, after the rules of all calls. */
export const endpoint = <State>(of: Description & Steps<State>): Endpoint & Steps<State> =>
  declared(of, of.steps);

/** Every call begins with the same rules, which its declaration decides, before anything is looked up. */
const declared = <State, All extends State>(
  of: Description & Steps<State>,
  steps: (deps: ApiDeps) => Step<All>[],
): Endpoint & Steps<State> => ({
  ...of,
  middlewares: (deps) => composeSteps<All>(refuseUnknown(of), requireType(of), ...steps(deps)),
});

const refuseUnknown = ({ query, security }: Description): Step => {
  const known = Object.keys(query?.shape ?? {});
  if (security === 'tokenAnywhere') known.push('access_token');
  return (ctx, next) => {
    refuseUnknownParameters(ctx, known);
    return next();
  };
};

/** Requires JSON for a body of JSON. A form says more about its types, and reads them itself. */
const requireType = ({ body }: Description): Step => {
  if (body === undefined || body.types !== undefined) return (_, next) => next();
  return (ctx, next) => {
    const [type = ''] = (ctx.req.headers['content-type'] ?? '').split(';', 1);
    if (type.trim().toLowerCase() === 'application/json') return next();
    throw new ApiError('unsupported_media_type', 'The content type must be application/json');
  };
};

type Declared<State> = Omit<Description, 'description' | 'security'> & {
  description?: string;
} & Steps<State>;

export const clientParameter = clientTokenText.describe('The client, a child of the account.');

/** Which tokens may make a call. */
const tokens = {
  any: 'Ask for a token with the scope `push_notifications`; any scope of the account is accepted.',
  /** The platform's, too: `requireOwnClient` lets it name any client. */
  orPlatform:
    'Ask for a token with the scope `push_notifications`; any scope of the account is accepted. The platform’s token (scope `enrichments`) is accepted for every client.',
  /** `requireSigningSecretsScope` is one of the steps. */
  signingSecrets:
    'If the account has the scope `signing_secrets`, ask for a token with it; otherwise any scope of the account is accepted.',
};

interface JsonState {
  json: unknown;
}

interface WithToken {
  by?: keyof typeof tokens;
  body?: Body & { atMostBytes: number };
}

/** Declares a call about one client, which a publisher's token makes. */
export function clientEndpoint<State extends PublisherState>({
  by = 'any',
  ...of
}: Declared<State> & WithToken): Endpoint & Steps<State> {
  const call = {
    ...withToken(of, by, ['unknown_client']),
    query: z.object({ client_token: clientParameter, ...of.query?.shape }),
  };
  return declared<State, State & JsonState>(call, (deps) => [
    noStore,
    requireToken<State & JsonState>(deps.db),
    requireOwnClient(deps.db, { orPlatform: by === 'orPlatform' }),
    ...(of.body ? [readJson(of.body.atMostBytes)] : []),
    ...of.steps(deps),
  ]);
}

/** Forbids storing the answer: it may hold secrets and is soon out of date. */
const noStore: Step = (ctx, next) => {
  ctx.set('Cache-Control', 'no-store');
  return next();
};

/** Declares a call about the account of the token. */
export const accountEndpoint = <State extends TokenState>({
  by = 'any',
  ...of
}: Declared<State> & WithToken): Endpoint & Steps<State> =>
  declared<State, State & JsonState>(withToken(of, by, []), (deps) => [
    noStore,
    requireToken<State & JsonState>(deps.db),
    ...(of.body ? [readJson(of.body.atMostBytes)] : []),
    ...of.steps(deps),
  ]);

/** Adds what a call with a token says of it, and the errors that it has in common with others. */
function withToken<State>(of: Declared<State>, by: keyof typeof tokens, codes: readonly ErrorCode[]) {
  const rate = of.rate && `Counts towards the account’s rate \`${of.rate}\`.`;
  return {
    ...of,
    description: [of.description, rate, tokens[by]].filter(Boolean).join(' '),
    security: 'token' as const,
    codes: [
      'invalid_token' as const,
      ...codes,
      ...of.codes,
      ...(of.rate ? (['too_many_requests'] as const) : []),
      ...(of.body ? (['body_too_long', 'unsupported_media_type'] as const) : []),
      ...(by === 'signingSecrets' ? (['insufficient_scope'] as const) : []),
      'temporarily_unavailable' as const,
    ],
  };
}
