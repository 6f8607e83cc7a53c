import { answer, call } from '../call.js';
import { matching, object, oneOf, text, whole } from '../schema.js';

const form = object({
  grant_type: oneOf('none'),
  client_id: text('cid_7Qd2mVx0', { minLength: 1 }),
  client_secret: text('cs_4f0Zc1Yt8mJr6Kq2', { minLength: 1 }),
  scope: text('push_notifications', {
    minLength: 1,
    description: 'One or more scopes, separated by spaces.',
  }),
});
const fields = {
  grant_type: 'none',
  client_id: 'cid_7Qd2mVx0',
  client_secret: 'cs_4f0Zc1Yt8mJr6Kq2',
  scope: 'push_notifications',
};
const examples = { publisher: { summary: 'A token for a publisher’s server', value: fields } };

export const tokenCalls = {
  '/oauth/access_token': {
    post: call({
      operationId: 'createAccessToken',
      tag: 'Tokens',
      summary: 'Create an access token',
      description:
        'Exchanges the credentials of an account for an access token. A new token ends no earlier one. Ask for `push_notifications`; a platform asks for `enrichments`; an account that has `signing_secrets` needs it to read and rotate signing secrets.',
      body: {
        required: true,
        content: {
          'application/x-www-form-urlencoded': { schema: form, examples },
          'multipart/form-data': { schema: form, examples },
        },
      },
      success: {
        '200': answer(
          'The token.',
          object({
            access_token: text('tok_4nV0'),
            token_type: oneOf('Bearer'),
            expires_in: whole(3600, { description: 'Seconds.' }),
            scope: text('push_notifications'),
          }),
          { access_token: 'tok_4nV0', token_type: 'Bearer', expires_in: 3600, scope: 'push_notifications' },
          { 'Cache-Control': { required: true, schema: matching(/^no-store$/, 'no-store') } },
        ),
      },
      codes: [
        ...(['invalid_request', 'too_many_parameters', 'unsupported_grant_type', 'invalid_scope'] as const),
        ...(['invalid_client', 'body_too_long', 'unsupported_media_type'] as const),
        ...(['too_many_requests', 'temporarily_unavailable'] as const),
      ],
      under: 'oauth',
    }),
  },
};
