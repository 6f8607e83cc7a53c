/** Describes one call: its input, its answers, its errors. */
import type { ErrorCode } from '../errors.js';
import { refusals } from './refusals.js';
import type { Schema } from './schema.js';
import { clientTokenText } from './schemas.js';

export type Tag =
  | 'Tokens'
  | 'Registration'
  | 'Publishing'
  | 'Endpoint'
  | 'Notifications'
  | 'Notices'
  | 'Service';

export interface CallDescription {
  operationId: string;
  tag: Tag;
  summary: string;
  description: string;
  /** `token`: in the header; `tokenAnywhere`: also in the query; a scope that the token must have. */
  security?: 'token' | 'tokenAnywhere' | { scope: string };
  parameters?: Parameter[];
  body?: Body;
  success: Record<string, Schema>;
  codes: readonly ErrorCode[];
  under?: 'oauth';
}

export interface Parameter extends Schema {
  name: string;
  in: 'query' | 'path';
  required: boolean;
  schema: Schema;
}

export interface Body extends Schema {
  required: true;
  content: Record<string, { schema: Schema; examples: Record<string, { summary: string; value: unknown }> }>;
}

export interface Operation extends Schema {
  operationId: string;
  tags: Tag[];
  summary: string;
  description: string;
  parameters: Parameter[];
  requestBody?: Body;
  responses: Record<string, Schema>;
}

export function call(of: CallDescription): Operation {
  return {
    operationId: of.operationId,
    tags: [of.tag],
    summary: of.summary,
    description: of.description,
    ...(of.security !== undefined && { security: securityOf(of.security) }),
    parameters: of.parameters ?? [],
    ...(of.body && { requestBody: of.body }),
    responses: { ...of.success, ...withOwn(of.success, refusals(of.codes, of.under)) },
  };
}

/** Leaves out refusals with a status that the call describes itself (/readyz: 503). */
const withOwn = (own: Record<string, Schema>, all: Record<string, Schema>): Record<string, Schema> =>
  Object.fromEntries(Object.entries(all).filter(([status]) => !(status in own)));

function securityOf(security: NonNullable<CallDescription['security']>): Schema[] {
  if (security === 'token') return [{ bearer: [] }];
  if (security === 'tokenAnywhere') return [{ bearer: [] }, { accessToken: [] }];
  return [{ bearer: [security.scope] }];
}

/** Describes a call of a publisher about one client. */
export function publisherCall(of: CallDescription): Operation {
  return call({
    security: 'token',
    ...of,
    parameters: [clientToken, ...(of.parameters ?? [])],
    codes: [
      ...(['invalid_request', 'too_many_parameters', 'invalid_token', 'invalid_client_token'] as const),
      ...of.codes,
      'temporarily_unavailable',
    ],
  });
}

/** The errors of a call that checks a URL, as `checkUrl` throws them. */
export const urlCodes = [
  'url_not_absolute',
  'url_scheme',
  'url_too_long',
  'url_credentials',
  'url_fragment',
  'url_unknown_host',
  'url_not_public',
  'url_own_address',
  'resolver_unavailable',
] as const satisfies readonly ErrorCode[];

/** The last sentence of a description: any token of the account may make the call. */
export const anyScope =
  'Ask for a token with the scope `push_notifications`; any scope of the account is accepted.';
/** The same for a call that the platform may make, too. */
export const anyScopeOrPlatform = `${anyScope} The platform’s token (scope \`enrichments\`) is accepted for every client.`;
/** The same for a call that `requireSigningSecretsScope` guards. */
export const secretScope =
  'If the account has the scope `signing_secrets`, ask for a token with it; otherwise any scope of the account is accepted.';

export const query = (name: string, description: string, schema: Schema, required = false): Parameter => ({
  name,
  in: 'query',
  description,
  required,
  schema,
  ...exampleOf(schema),
});

export const inPath = (name: string, description: string, schema: Schema): Parameter => ({
  name,
  in: 'path',
  description,
  required: true,
  schema,
  ...exampleOf(schema),
});

const exampleOf = ({ examples: [example] = [] }: { examples?: unknown[] }) =>
  example === undefined ? {} : { example };

const clientToken = query('client_token', 'The client, a child of the account.', clientTokenText, true);

export { clientToken };

/** Describes an answer as JSON, with an example of it. */
export function answer(description: string, schema: Schema, example: unknown, headers: Schema = {}): Schema {
  const requestId = { $ref: '#/components/headers/RequestId' };
  return {
    description,
    headers: { 'X-Request-Id': requestId, ...headers },
    content: {
      'application/json': { schema, examples: { answer: { summary: description, value: example } } },
    },
  };
}

export const jsonBody = (
  schema: Schema,
  examples: Record<string, { summary: string; value: unknown }>,
): Body => ({
  required: true,
  content: { 'application/json': { schema, examples } },
});

/** The headers that show the rest of an account's rate (docs/reference/limits.md). */
export const rateHeaders: Schema = {
  RateLimit: { $ref: '#/components/headers/RateLimit' },
  'RateLimit-Policy': { $ref: '#/components/headers/RateLimitPolicy' },
};
