/** The calls under /operator: each carries out an operation for a program with a token, and is described like a call of the API. */
import type Router from '@koa/router';
import type { Middleware } from 'koa';
import { z } from 'zod';
import { type CallRequest, declareCall } from '../api/call.js';
import type { ApiDeps, Services } from '../api/deps.js';
import { describe } from '../api/reference/describe.js';
import { openapi } from '../api/reference/openapi.js';
import { urlCodes } from '../api/steps/checkUrl.js';
import { bearerToken, tokenRefused } from '../api/steps/publisher.js';
import { ApiError, badParameter, unavailable } from '../http/apiError.js';
import { findsAgain, jsonReader } from '../http/body.js';
import { checked } from '../http/checked.js';
import { clientAddress } from '../http/clientAddress.js';
import { errorCodes } from '../http/errors.js';
import { components, limitNumber, notACursor, pageMembers, reasonText, text } from '../http/schemas.js';
import {
  type Answer,
  createOperator,
  explainError,
  nameOf,
  type Operation,
  type Operator,
  type Page,
  Refused,
  roleRefused,
  unlimited,
} from '../operator/operation.js';
import { groups, operations } from '../operator/operations.js';
import { answerType } from '../operator/remote.js';
import { capital } from '../operator/terminal.js';
import { TargetRefused } from '../outgoing/target.js';
import { isRedisUnavailable } from '../redis/connection/unavailable.js';
import { ChangeRefused } from '../redis/records/clients.js';
import { findOperatorToken, isAllowed, type Role } from '../redis/records/operatorAccess.js';
import { SecretUnreadable } from '../redis/records/secretBox.js';
import { isTemporalUnavailable } from '../temporal/connection.js';
import { packedFile } from '../web/files.js';

const readJson = jsonReader(64 * 1024);

export function mountCalls(router: Router, services: Services): void {
  for (const { method, path, middleware } of calls) router[method](path, middleware(services as ApiDeps));
  router.get('/operator/openapi.json', async (ctx) => {
    ctx.body = await description(ctx);
  });
}

/** Answers why an operation was not carried out, and to an operator, whom it concerns, why Redis does not serve. */
export const answerRefusals: Middleware = async ({ method }, next) => {
  try {
    await next();
  } catch (err) {
    if (err instanceof Refused) throw new ApiError(err.code, err.message.replace(/\.$/, ''));
    if (err instanceof TargetRefused) throw new ApiError(`url_${err.reason}`, err.message);
    if (err instanceof ChangeRefused || err instanceof SecretUnreadable)
      throw new ApiError('refused', explainError(err).slice(0, -1));
    if (isTemporalUnavailable(err)) throw unavailable(err);
    // The words of a refusal may be those of an error of Redis.
    const isOfRedis = !(err instanceof ApiError) && isRedisUnavailable(err);
    throw isOfRedis ? unavailable(err, `${explainError(err, method === 'POST')} `) : err;
  }
};

export function requireRole({ role: needed }: Pick<Operation, 'role'>, role: Role, who: string): void {
  if (!isAllowed(role, needed)) throw roleRefused(needed, role, who);
}

/** Returns what operations work with in this process. @param own.warnings gets what the operator is told beside the answer */
export function operatorOf(
  services: Services,
  { warnings, ...own }: Pick<Operator, 'role' | 'who' | 'token' | 'address'> & { warnings: string[] },
  reason: string | undefined,
): Operator {
  const { config, db, temporal } = services;
  return createOperator(
    {
      ...own,
      config: () => config,
      db: async () => db,
      temporal: async () => temporal,
      sender: async () => services.sender,
      warn: (line) => void warnings.push(line),
    },
    reason,
  );
}

const pageParameters = {
  limit: limitNumber,
  cursor: text('U0lURTAwNDI', 'Where to continue: the `next_cursor` of the page before.').optional(),
};

const reasonMember = reasonText.describe('Why, for the audit.').optional();

async function carryOut(services: Services, operation: Operation, { ctx, parameters }: CallRequest) {
  ctx.set('Cache-Control', 'no-store');
  const token = bearerToken(ctx);
  const find = async () => {
    const found = token === undefined ? undefined : await findOperatorToken(services.db, token);
    if (found === undefined) throw tokenRefused(token, /[^A-Za-z0-9._-]/u);
    return found;
  };
  const { name, role, createdAtMs } = await find();
  const stands = findsAgain(find);
  ctx.state.isOperator = true;
  requireRole(operation, role, `the token ${name}`);
  const { input, list, changes } = operation;
  const given = changes ? await readJson(ctx.req) : Object.fromEntries(parameters);
  await stands();
  const { reason: said, ...all } = checked(z.record(z.string(), z.unknown()), given);
  const { limit, cursor, ...members } = all;
  const own = 'limit' in input.shape && limit !== undefined ? { ...members, limit } : members;
  const checkedMembers = checkedInput(operation, changes ? all : own);
  const { reason } = checked(z.object({ reason: reasonMember }), { reason: said });
  const isWhole = ctx.get('Accept') === answerType;
  const page = list === undefined || isWhole ? unlimited : readPage(limit, cursor);
  const warnings: string[] = [];
  const address = clientAddress(ctx.req, services.config.TRUSTED_PROXIES);
  const who = { role, who: `${name} (token)`, token: { name, createdAtMs } };
  const operator = operatorOf(services, { ...who, address, warnings }, reason);
  const answer = await operation.run(operator, checkedMembers, page);
  if (!isWhole) return present(operation, answer);
  ctx.type = answerType;
  return JSON.stringify({ ...answer, warnings });
}

function readPage(limit: unknown, cursor: unknown): Page {
  const asked = checked(z.object(pageParameters), { limit, cursor });
  const after = asked.cursor && Buffer.from(asked.cursor, 'base64url').toString();
  if (after === '') throw badParameter(`cursor ${notACursor}`);
  return { limit: asked.limit, after };
}

/** Checks the input of an operation; the names of options and arguments in messages become those of members. @throws ApiError 400 */
export function checkedInput({ input }: Operation, given: Record<string, unknown>): Record<string, unknown> {
  try {
    return checked(input.strict(), given);
  } catch (err) {
    if (!(err instanceof ApiError)) throw err;
    throw badParameter(
      err.message
        .replaceAll(/(?:--([a-z-]+)|<([a-z-]+)>)/g, (_, option, argument) =>
          (option ?? argument).replaceAll('-', '_'),
        )
        .replace(/^body: (?=[A-Z])|\.$/g, ''),
    );
  }
}

function present({ list }: Operation, { value, next }: Answer): unknown {
  if (list === undefined) return value;
  const more = next === undefined ? {} : { next_cursor: Buffer.from(next).toString('base64url') };
  return { [list]: value, has_more: next !== undefined, ...more };
}

function callOf(operation: Operation) {
  const { input, answers, list, changes, role, does } = operation;
  const words = nameOf(operation).split(' ');
  const [first = '', ...rest] = words.flatMap((word) => word.split('-'));
  const tag = words.length > 1 ? first : 'service';
  const page = z.object({ [list ?? '']: z.array(answers), ...pageMembers(z.string()) });
  const call = declareCall({
    answer: (services, request) => carryOut(services, operation, request),
    route: `${changes ? 'POST' : 'GET'} /operator/${words.join('/')}`,
    summary: capital(does),
    description: `As the command \`operator ${operation.command}\`. Role: \`${role}\`.`,
    security: [{ bearer: [] }],
    ...(changes
      ? {
          body: { schema: z.strictObject({ ...input.shape, reason: reasonMember }), examples: {} },
          after503: 'look whether it took effect, then repeat it.',
        }
      : { query: z.object({ ...input.shape, ...(list ? pageParameters : {}) }) }),
    result: { what: 'The answer.', schema: list ? page : answers },
    codes: [
      'insufficient_role',
      'refused',
      'unknown_account',
      'unknown_client',
      'not_registered',
      'unknown_notification',
      'unknown_event',
      ...('url' in input.shape ? urlCodes : []),
    ],
  });
  return { ...call, operationId: first + rest.map(capital).join(''), tag };
}

const calls = operations.map(callOf);
const allGroups = { ...groups, service: 'see how the service is' };

const description = packedFile('json', () =>
  JSON.stringify({
    ...openapi,
    info: {
      ...openapi.info,
      title: 'Asset update service: operators',
      summary: 'What operators of the service may do.',
      description:
        'Programs of the company that runs the service. Make a token: `operator token create --name crm --role support`. A role may do what those before it may: `look`, `support`, `admin`. Errors have a `code` for programs.',
    },
    tags: Object.entries(allGroups).map(([name, does]) => ({ name, description: does })),
    paths: describe(calls),
    webhooks: undefined,
    components: {
      ...openapi.components,
      schemas: components(errorCodes),
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'A token of `operator token create`.' },
      },
    },
  }),
);
