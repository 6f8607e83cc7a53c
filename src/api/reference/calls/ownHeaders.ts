import { ownHeadersAtMost } from '../../../outgoing/ownHeaders.js';
import { requestHeadersBody } from '../../endpoints/headers/readHeaders.js';
import { answer, jsonBody, publisherCall } from '../call.js';
import { listOf, type ObjectSchema, object, schemaOf, text } from '../schema.js';

const named = object({
  header_names: listOf(text('authorization', { description: 'In lower case.' })),
});
const example = { header_names: ['authorization', 'x-gateway-key'] };

const body = schemaOf(requestHeadersBody) as ObjectSchema;
const limited = {
  ...body,
  properties: {
    headers: {
      ...body.properties.headers,
      maxProperties: ownHeadersAtMost,
      description: 'The name and the value of each; an empty object for none.',
    },
  },
};

export const ownHeaderCalls = {
  '/push_notifications/headers': {
    get: publisherCall({
      operationId: 'getRequestHeaders',
      tag: 'Endpoint',
      summary: 'Name the request headers of your own',
      description:
        'Names the headers that are sent to the client’s URL beside those of the service. Values are never shown. Ask for a token with the scope `push_notifications`; any scope of the account is taken.',
      success: { '200': answer('Their names.', named, example) },
      codes: [],
    }),
    put: publisherCall({
      operationId: 'setRequestHeaders',
      tag: 'Endpoint',
      summary: 'Set request headers of your own',
      description:
        'Has up to five headers sent with each notification, test and check, such as the key of a gateway before the receiver. They take the place of all before, and belong to the client: they are there before a URL is and are kept over a change of it. Values are encrypted at rest and shown nowhere. Names that the service or HTTP sets are refused. One call in 5 s for each client, bursts of 5, together with the calls that send something. Where the account has the scope `signing_secrets`, ask for a token with it; else any scope of the account is taken.',
      body: jsonBody(limited, {
        set: {
          summary: 'Two headers',
          value: { headers: { Authorization: 'Basic Z2F0ZTprZXk', 'X-Gateway-Key': '5f2c81' } },
        },
        none: { summary: 'None any more', value: { headers: {} } },
      }),
      success: { '200': answer('The names of those set.', named, example) },
      codes: ['insufficient_scope', 'too_many_requests', 'body_too_long', 'unsupported_media_type'],
    }),
  },
};
