import type { Middleware } from 'koa';
import {
  type RequestHeaders,
  requestHeaderNames,
  setRequestHeaders,
} from '../../../redis/records/requestHeaders.js';
import { composeSteps, type Step } from '../../composeSteps.js';
import type { ApiDeps } from '../../deps.js';
import { auditCall } from '../../steps/auditCall.js';
import { readBody } from '../../steps/body/readBody.js';
import { readJson } from '../../steps/body/readJson.js';
import { type PublisherState, publisherSteps } from '../../steps/publisher.js';
import { refuseUnknownParameters } from '../../steps/readQuery.js';
import { limitSends } from '../../steps/sendLimit.js';
import { requireSigningSecretsScope } from '../signingSecret.js';
import { headersOf } from './readHeaders.js';

/** GET /push_notifications/headers: lists the names of a client's own request headers, never their values. */
export function requestHeadersEndpoint({ db }: ApiDeps): Middleware[] {
  return composeSteps<PublisherState>(...publisherSteps(db), refuseParameters, async (ctx) => {
    ctx.body = { header_names: await requestHeaderNames(db, ctx.state.client.clientToken) };
  });
}

interface SetState extends PublisherState {
  body: Buffer;
  json: unknown;
  headers: RequestHeaders;
}

const bodyAtMostBytes = 32 * 1024;

/** PUT /push_notifications/headers: replaces all of the client's own request headers. */
export function setRequestHeadersEndpoint(deps: ApiDeps): Middleware[] {
  const { db, secretBox } = deps;
  return composeSteps<SetState>(
    ...publisherSteps(db),
    refuseParameters,
    requireSigningSecretsScope(db),
    readBody(bodyAtMostBytes),
    readJson,
    async (ctx, next) => {
      ctx.state.headers = headersOf(ctx.state.json);
      await next();
    },
    limitSends(db),
    auditCall<SetState>(deps, {
      what: 'request headers set',
      about: ({ headers }) => ({ header_names: namesOf(headers) }),
    }),
    async (ctx) => {
      await setRequestHeaders(db, secretBox, ctx.state.client.clientToken, ctx.state.headers);
      ctx.body = { header_names: namesOf(ctx.state.headers) };
    },
  );
}

const refuseParameters: Step<PublisherState> = async (ctx, next) => {
  refuseUnknownParameters(ctx, ['client_token']);
  await next();
};

const namesOf = (headers: RequestHeaders): string[] => Object.keys(headers).sort();
