import { ownHeadersAtMost } from '../../../outgoing/ownHeaders.js';
import { requestHeadersBody } from '../../endpoints/headers/readHeaders.js';
import { answer, anyScope, jsonBody, publisherCall, secretScope } from '../call.js';
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
      description: 'Names and values; an empty object removes all headers.',
    },
  },
};

export const ownHeaderCalls = {
  '/push_notifications/headers': {
    get: publisherCall({
      operationId: 'getRequestHeaders',
      tag: 'Endpoint',
      summary: 'List the names of your own request headers',
      description: `Lists the names of the headers that requests to the client’s URL carry in addition to those of the service. Values are never shown. ${anyScope}`,
      success: { '200': answer('Their names.', named, example) },
      codes: [],
    }),
    put: publisherCall({
      operationId: 'setRequestHeaders',
      tag: 'Endpoint',
      summary: 'Set your own request headers',
      description: `Sets up to five headers that each notification, test and check carries, such as the key of a gateway in front of the receiver. They replace all earlier ones and belong to the client: they exist before a URL does, and a change of the URL keeps them. Values are encrypted at rest and never shown. Names that the service or HTTP sets are refused. One call in 5 s for each client, bursts of 5, together with the calls that send something. ${secretScope}`,
      body: jsonBody(limited, {
        set: {
          summary: 'Two headers',
          value: { headers: { Authorization: 'Basic Z2F0ZTprZXk', 'X-Gateway-Key': '5f2c81' } },
        },
        none: { summary: 'No headers', value: { headers: {} } },
      }),
      success: { '200': answer('The names of the headers set.', named, example) },
      codes: ['insufficient_scope', 'too_many_requests', 'body_too_long', 'unsupported_media_type'],
    }),
  },
};
