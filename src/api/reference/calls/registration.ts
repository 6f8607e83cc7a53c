import { answer, call, clientToken, query, rateHeaders, urlCodes } from '../call.js';
import { object, text } from '../schema.js';
import { urlText } from '../schemas.js';

const url = 'https://cms.example.com/hooks/assets';

export const registrationCalls = {
  '/register_push_notifications': {
    post: call({
      operationId: 'registerPushNotifications',
      tag: 'Registration',
      summary: 'Register the URL of a client',
      description:
        'Sets the one URL to which a client’s notifications go. It can be set once: an operator changes or removes it. Percent-encode the URL once. Repeat a call that ended in 503 or without an answer unchanged: it then answers 200. Ask for a token with the scope `push_notifications`; it may also be given as the parameter `access_token`, but not both ways. Calls with a host name in the URL count towards the account’s rate `names`.',
      security: 'tokenAnywhere',
      parameters: [clientToken, query('url', 'An absolute https URL.', urlText, true)],
      success: {
        '200': answer(
          'Registered.',
          object({ success: { const: true, examples: [true] }, url: text(url) }),
          { success: true, url },
          rateHeaders,
        ),
      },
      codes: [
        ...(['invalid_request', 'too_many_parameters', 'already_registered'] as const),
        ...urlCodes,
        ...(['invalid_token', 'invalid_client_token', 'too_many_requests'] as const),
        'temporarily_unavailable',
      ],
    }),
  },
};
