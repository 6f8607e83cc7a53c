/** The calls that check a receiver, bring back what it lost, and find an event. */
type Schema = Record<string, unknown>;

const text = { type: 'string' };
const integer = { type: 'integer' };
const time = { type: 'string', format: 'date-time' };
const object = (properties: Record<string, Schema>, ...optional: string[]): Schema => ({
  type: 'object',
  properties,
  required: Object.keys(properties).filter((name) => !optional.includes(name)),
});
const list = (items: Schema): Schema => ({ type: 'array', items });

const json = (description: string, schema: Schema): Schema => ({
  description,
  content: { 'application/json': { schema } },
});
const problem = (description: string): Schema => json(description, { $ref: '#/components/schemas/Problem' });

const clientToken = {
  name: 'client_token',
  in: 'query',
  description: 'The client, a child of the account',
  required: true,
  schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' },
};

/** What each of them can be answered. */
const problems = {
  '400': problem('A parameter or the body is missing, empty, repeated, unknown or wrong'),
  '401': problem('The access token is no longer valid, or the client token is not valid for this account'),
  '408': problem('The request took too long'),
  '417': problem('The header Expect asks for something other than 100-continue'),
  '429': problem('Too many calls of this client or this account: try again after Retry-After'),
  '431': problem('The path, the query and the headers are over 32 KiB'),
  '503': problem('Redis, or Temporal where it is needed, does not answer: try again after Retry-After'),
};

const attemptErrors = [
  'dns',
  'connect',
  'tls',
  'timeout',
  'http_status',
  'redirect',
  'blocked_address',
  'protocol',
];

export const newerCalls = {
  '/push_notifications/check': {
    post: {
      summary: 'Sends good and bad notifications now, and says what the receiver made of each',
      security: [{ bearer: [] }],
      parameters: [
        clientToken,
        {
          name: 'url',
          in: 'query',
          description: 'Where to, before a url is registered',
          required: false,
          schema: { type: 'string', minLength: 1, maxLength: 2048 },
        },
      ],
      responses: {
        '200': json(
          'What each came to',
          object({
            checks: list(
              object({
                name: {
                  type: 'string',
                  enum: ['good', 'wrong_signature', 'old_timestamp', 'twice', 'slow'],
                },
                sent: list(object({ headers: { type: 'object', additionalProperties: text }, body: text })),
                answered: list(
                  object(
                    {
                      status: integer,
                      milliseconds: integer,
                      error: { type: 'string', enum: attemptErrors },
                    },
                    'status',
                    'error',
                  ),
                ),
                verdict: { type: 'string', enum: ['ok', 'warn', 'fail'] },
                advice: text,
              }),
            ),
          }),
        ),
        ...problems,
      },
    },
  },
  '/notifications/replay': {
    post: {
      summary: 'What was delivered in a time is owed again, each asset once, by its newest notification',
      security: [{ bearer: [] }],
      parameters: [clientToken],
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: {
              ...object({ since: time, until: time, dry_run: { type: 'boolean' } }, 'until', 'dry_run'),
              additionalProperties: false,
            },
          },
        },
      },
      responses: {
        '200': json(
          'How many; listed_since where older deliveries of that time may be forgotten',
          object({ count: integer, listed_since: time }, 'listed_since'),
        ),
        ...problems,
        '413': problem('The body is over 16 KiB'),
      },
    },
  },
  '/events/{event_id}': {
    get: {
      summary: 'What became of an event: the newest notification that names it',
      security: [{ bearer: [] }],
      parameters: [
        clientToken,
        {
          name: 'event_id',
          in: 'path',
          required: true,
          schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
        },
      ],
      responses: {
        '200': json('The notification', { $ref: '#/components/schemas/Notification' }),
        ...problems,
        '404': problem('unknown_event'),
      },
    },
  },
};
