/** Declares the calls of the API, each once: the router carries out a declaration, and `/openapi.json` describes it. */
import type { Context } from 'koa';
import { z } from 'zod';
import { type Act, type May, toneOf } from '../acts/act.js';
import { ownClient, type Subject } from '../acts/subjects.js';
import { findsAgain, jsonReader, requireNoBody } from '../http/body.js';
import { checked } from '../http/checked.js';
import type { ApiContext } from '../http/context.js';
import type { ErrorCode } from '../http/errors.js';
import type { AccountRate } from '../http/limits.js';
import { pickerOf } from '../http/picker.js';
import { formDecoded, type Parameters, type Places, readQuery, required } from '../http/query.js';
import { clientTokenText, platformIdText } from '../http/schemas.js';
import type { Db } from '../redis/connection/db.js';
import type { AccessToken } from '../redis/records/accessTokens.js';
import { getAccount, platformScope } from '../redis/records/accounts.js';
import { noticesRecipient } from '../redis/records/notices.js';
import { actorOf } from './actor.js';
import type { ApiDeps } from './deps.js';
import { bearerToken, requireScope, requireSigningSecretsScope } from './steps/publisher.js';

type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

export interface Description {
  /** The parameters of the path stand in braces. */
  route: `${Method} /${string}`;
  summary: string;
  description: string;
  /** In OpenAPI's terms; absent if the call takes no token. */
  security?: Partial<Record<'bearer' | 'accessToken', string[]>>[];
  /** The parameters of the query, each with a description and an example. */
  query?: z.ZodObject;
  inPath?: z.ZodObject;
  body?: {
    schema: z.ZodType;
    /** The content type; JSON if absent. */
    type?: string;
    /** A request for each summary, which says what the example shows. */
    examples: Record<string, unknown>;
  };
  /** The status of the result; 200 if absent. */
  status?: 202;
  result: Result;
  otherResults?: Record<number, Result>;
  /** The errors, without those that any call, any call with a token and any call with a body may answer. */
  codes?: readonly ErrorCode[];
  rate?: AccountRate;
  act?: Act<never, unknown>;
  /** The caller's next step after 503 or no answer, for a call that changes or sends something: one sentence after "After 503". */
  after503?: string;
}

interface Result {
  what: string;
  /** The schema of the JSON; absent if `type` names the content type alone. Without both there is no body. */
  schema?: z.ZodType;
  type?: string;
  headers?: Record<string, unknown>;
}

export interface Call extends Description {
  method: Lowercase<Method>;
  path: string;
  middleware: (deps: ApiDeps) => (ctx: Context) => Promise<void>;
}

export interface CallRequest {
  ctx: ApiContext;
  /** The parameters of the query, none of them unknown or empty. */
  parameters: Parameters;
}

/** Declares a call. @param of.answer returns the body */
export const declareCall = (
  of: Description & { answer: (deps: ApiDeps, request: CallRequest) => unknown },
): Call => {
  const [method, path = ''] = of.route.split(' ');
  const known = Object.keys(of.query?.shape ?? {});
  if (of.security?.some((way) => 'accessToken' in way)) known.push('access_token');
  const inQuery = placesOf(known, 'in the query');
  const inPath = fieldsOf(of.inPath);
  const as = of.body?.type ? 'a form' : 'JSON';
  const elsewhere = new Map([
    ...placesOf(fieldsOf(of.body?.schema), `in the body, as ${as}`),
    ...placesOf(inPath, 'in the path'),
  ]);
  const pick = picks(of);
  const middleware = (deps: ApiDeps) => async (ctx: Context) => {
    // The router takes a name as it is written where it cannot decode it.
    for (const name of inPath) formDecoded(ctx.path, name);
    const parameters = readQuery(ctx.querystring, known, elsewhere);
    if (of.body === undefined) await requireNoBody(ctx.req, inQuery);
    ctx.status = of.status ?? 200;
    ctx.body = pick(await of.answer(deps, { ctx: ctx as ApiContext, parameters }));
  };
  return { ...of, method: method?.toLowerCase() as Lowercase<Method>, path, middleware };
};

/** An answer without a schema is a file. */
const picks = ({ result: { schema } }: Pick<Description, 'result'>) =>
  schema ? pickerOf(schema) : (answer: unknown) => answer;

const placesOf = (names: readonly string[], place: string): Places =>
  new Map(names.map((name) => [name, `belongs ${place}`]));

/** Returns the names of an object's members, or of those of each choice. */
function fieldsOf(schema: unknown): string[] {
  if (schema instanceof z.ZodUnion) return schema.options.flatMap(fieldsOf);
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}

export const clientParameter = clientTokenText.describe('The client, a child of the account.');

/** Says in a call's description which tokens may make the call. */
const tokens: Record<NonNullable<May['publisher']>, string> = {
  any: 'Ask for a token with the scope `push_notifications`; any scope of the account is accepted.',
  orPlatform:
    'Ask for a token with the scope `push_notifications`; any scope of the account is accepted. The platform’s token (scope `enrichments`) is accepted for every client.',
  platform: 'Ask for a token with the scope `enrichments`; it is accepted for every client.',
  signingSecrets:
    'If the account has the scope `signing_secrets`, ask for a token with it; otherwise any scope of the account is accepted.',
};

/** A request with a token. Its query and body are parsed by their schemas. */
interface TokenRequest<Query = unknown, Body = unknown> {
  ctx: ApiContext;
  token: AccessToken;
  /** @throws ApiError 401 if the token or session has ended meanwhile */
  stands: () => Promise<void>;
  query: Query;
  body: Body;
}

interface Declared<Path, Query, Body extends z.ZodType>
  extends Omit<Description, 'description' | 'security'> {
  description?: string;
  by?: NonNullable<May['publisher']>;
  inPath?: z.ZodObject & Path;
  query?: z.ZodObject & Query;
  /** At most 16 KiB, unless it says more. */
  body?: Description['body'] & { schema: Body; atMostBytes?: number };
  /** Reads many records: such calls of an account are carried out one after another. */
  isLong?: true;
  /** Returns false for a call that does not count towards the rate. */
  countsIf?: (given: z.output<Query> & z.output<Body>) => boolean;
}

/** `answer` carries out the act; without it the act takes what the call is about, and what path, query and body give. */
type CarriedOut<Given, Request> =
  | { act: Act<Given, unknown>; answer?: undefined }
  | { answer: (deps: ApiDeps, request: Request) => unknown };

/** Returns a function that declares calls with a token. `find` finds what such a call is about. */
const tokenCall =
  <About extends object>(
    find: (db: Db, request: CallRequest & { token: AccessToken; by: keyof typeof tokens }) => Promise<About>,
    { query: ownQuery = {}, codes: ownCodes = [] as ErrorCode[], whose = '' } = {},
  ) =>
  <Path extends z.ZodType, Query extends z.ZodType, Body extends z.ZodType>({
    act,
    by = act?.may.publisher ?? 'any',
    isLong,
    countsIf = () => true,
    answer,
    ...of
  }: Declared<Path, Query, Body> &
    CarriedOut<
      About & z.output<Path> & z.output<Query> & z.output<Body>,
      About & TokenRequest<z.output<Query>, z.output<Body>>
    >) => {
    const { inPath, query, body, rate } = of;
    const pick = picks(of);
    const readJson = body && jsonReader(body.atMostBytes ?? 16 * 1024);
    const fullQuery = z.object({ ...ownQuery, ...query?.shape });
    const says = [
      of.description,
      rate && `Counts towards the account’s rate \`${rate}\`.`,
      tokens[by],
      whose,
    ];
    const elsewhere = new Map([
      ...placesOf(fieldsOf(fullQuery), 'in the query'),
      ...placesOf(fieldsOf(inPath), 'in the path'),
    ]);
    /** Carries the call out for a known caller; `query` and `body` are not parsed yet. */
    const carryOut = async (deps: ApiDeps, request: TokenRequest & About): Promise<unknown> => {
      const { ctx, token, query: inQuery, body: inBody, ...about } = request;
      const parsed = {
        ...request,
        query: query && checked(query, inQuery),
        body: body && checked(body.schema, inBody, elsewhere),
      } as About & TokenRequest<z.output<Query>, z.output<Body>>;
      const path = inPath && checked(inPath, ctx.params);
      const given = Object.assign({}, about, path, parsed.query, parsed.body);
      if (by === 'signingSecrets') await requireSigningSecretsScope(deps.db, token);
      if (rate && countsIf(given))
        await deps.countCall(ctx, rate, rate === 'links' ? token.fingerprint : token.accountId);
      const work = async () => {
        await request.stands();
        return answer ? answer(deps, parsed) : act?.(actorOf(deps, request), given);
      };
      return isLong ? deps.inTurn(ctx, `${token.accountId} ${of.route}`, work) : work();
    };
    return {
      ...declareCall({
        ...of,
        description: says.filter(Boolean).join(' '),
        security: [{ bearer: [] }],
        query: fullQuery,
        codes: [
          ...ownCodes,
          ...(of.codes ?? []),
          ...(by === 'signingSecrets' || by === 'platform' ? (['insufficient_scope'] as const) : []),
        ],
        answer: async (deps, { ctx, parameters }) => {
          // The answer may hold secrets, and is soon out of date.
          ctx.set('Cache-Control', 'no-store');
          const given = bearerToken(ctx);
          const token = await deps.findToken(given);
          const stands = findsAgain(() => deps.findToken(given));
          const about = await find(deps.db, { ctx, parameters, token, by });
          const json = await readJson?.(ctx.req);
          const query = Object.fromEntries(parameters);
          return carryOut(deps, { ctx, token, stands, query, body: json, ...about });
        },
      }),
      act: act as Act<never, unknown> | undefined,
      carryOut: async (deps: ApiDeps, request: TokenRequest & About) => {
        const answer = (await carryOut(deps, request)) as object;
        return { answer: pick(answer), tone: toneOf(answer) };
      },
    };
  };

export const accountCall = tokenCall(async () => ({}));

export const clientCall = tokenCall<{ client: Subject }>(
  async (db, { parameters, token, by }) => {
    const { accountId, scopes } = token;
    if (by === 'platform') requireScope(token, platformScope);
    const isAnyAllowed = by === 'platform' || (by === 'orPlatform' && scopes.includes(platformScope));
    const clientToken = required(parameters, 'client_token', { where: ' in the query' });
    return { client: await ownClient(db, { clientToken, accountId, isAnyAllowed }) };
  },
  { query: { client_token: clientParameter }, codes: ['unknown_client'] },
);

const asset = z.object({ platform_id: platformIdText.describe('The asset.') });

/** Declares a call about an asset twice: the id is in its query, or in its path. */
export function assetCalls(
  method: Method,
  description: string,
  of: Omit<Description, 'route' | 'description' | 'act'> & {
    act: Act<{ client: Subject } & z.output<typeof asset>, unknown>;
  },
) {
  const route = `${method} /assets` as const;
  const inPathToo = `As \`${route}\`, which is to be preferred: some gateways decode or refuse an id with \`/\` or \`..\` in a path.`;
  return [
    clientCall({ ...of, route, description, query: asset }),
    clientCall({ ...of, route: `${route}/{platform_id}`, description: inPathToo, inPath: asset }),
  ] as const;
}

export const noticesCall = tokenCall<{ client: Subject }>(
  async (db, { token }) => ({ client: await findNoticesClient(db, token) }),
  {
    codes: ['insufficient_scope', 'no_notices_url'],
    whose: 'An account with the scope `enrichments` needs a token with that scope.',
  },
);

/** The notices of a platform are about every customer: its tokens for other uses do not reach them. @throws ApiError 403 */
export async function findNoticesClient(db: Db, token: AccessToken): Promise<Subject> {
  const { accountId } = token;
  const { scopes = [] } = (await getAccount(db, accountId)) ?? {};
  if (scopes.includes(platformScope)) requireScope(token, platformScope);
  return { clientToken: noticesRecipient({ accountId, scopes }), accountId };
}
