import assert from 'node:assert/strict';
import { openapi } from '../../src/api/reference/openapi.js';
import { rotateSecret, setDisabled } from '../../src/redis/records/accounts.js';
import { listCalls } from '../../src/redis/records/audit.js';
import { deleteClient } from '../../src/redis/records/deletion.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { type Harness, newCustomer, newToken, type RunningApi, startApi, startHarness } from '../service.js';
import { forgetSends } from './caller.js';

type Customer = Awaited<ReturnType<typeof newCustomer>>;

/** The subject of a call. The receiver's URL is registered for the client. */
interface Subject {
  clientToken: string;
  notificationId: string;
  platformId: string;
  eventId: string;
}

interface Call {
  /** The answer to the owner's token, which shows that the calls below are refused because of the caller. */
  succeeds: number;
  /** Its query, without the access token. */
  query?: (subject: Subject) => Record<string, string>;
  body?: (subject: Subject) => unknown;
  /** The token may also come as the parameter access_token. */
  tokenInQuery?: true;
  scope?: 'enrichments';
  /** The platform may ask for any client, too. */
  isForPlatform?: boolean;
}

const ofClient = ({ clientToken }: Subject) => ({ client_token: clientToken });
let receiver: Receiver;

/** Every call of the description that asks for a token. */
const calls: Record<string, Call> = {
  'POST /register_push_notifications': {
    // It has its one URL: the first answer that only the owner gets.
    succeeds: 400,
    query: (subject) => ({ ...ofClient(subject), url: receiver.url }),
    tokenInQuery: true,
  },
  'POST /enrichments': {
    succeeds: 202,
    body: (subject) => ({ ...ofClient(subject), platform_id: subject.platformId, segments: [] }),
    scope: 'enrichments',
  },
  'GET /clients': { succeeds: 200 },
  'POST /console_sessions': { succeeds: 200 },
  'GET /push_notifications': { succeeds: 200, query: ofClient },
  'GET /push_notifications/signing_secret': { succeeds: 200, query: ofClient },
  'POST /push_notifications/signing_secret': { succeeds: 200, query: ofClient },
  'GET /push_notifications/headers': { succeeds: 200, query: ofClient },
  'PUT /push_notifications/headers': { succeeds: 200, query: ofClient, body: () => ({ headers: {} }) },
  'POST /push_notifications/test': { succeeds: 200, query: ofClient },
  'POST /push_notifications/check': { succeeds: 200, query: ofClient },
  'POST /push_notifications/resume': { succeeds: 202, query: ofClient },
  'GET /notifications': { succeeds: 200, query: ofClient },
  'GET /notifications/{id}': { succeeds: 200, query: ofClient },
  'POST /notifications/{id}/redeliver': { succeeds: 202, query: ofClient },
  'POST /notifications/recover': {
    succeeds: 200,
    query: ofClient,
    body: () => ({ since: '2026-01-01T00:00:00Z' }),
  },
  'POST /notifications/replay': {
    succeeds: 200,
    query: ofClient,
    body: () => ({ since: '2026-01-01T00:00:00Z' }),
  },
  'GET /updates': { succeeds: 200, query: ofClient },
  'PUT /notices': { succeeds: 200, body: () => ({ url: receiver.url }) },
  'GET /notices': { succeeds: 200 },
  'GET /notices/signing_secret': { succeeds: 200 },
  'POST /notices/signing_secret': { succeeds: 200 },
  'DELETE /notices': { succeeds: 200 },
  'GET /events/{event_id}': { succeeds: 200, query: ofClient, isForPlatform: true },
  'GET /assets/{platform_id}': { succeeds: 200, query: ofClient, isForPlatform: true },
};

/** Nothing of an account is in them; the token call has its own test (accessToken.test.ts). */
const open = [
  'POST /oauth/access_token',
  'POST /oauth/revoke',
  'GET /healthz',
  'GET /readyz',
  'GET /openapi.json',
  'GET /docs',
];

const aboutOneClient = Object.entries(calls).filter(([, call]) => call.query);
/** A run is of no account: whoever publishes may see it. */
const aboutOneThing = Object.entries(calls).filter(([name, { scope }]) => name.includes('{') && !scope);

describe('tenants', () => {
  let harness: Harness;
  let api: RunningApi;
  let mine: Subject;
  let theirs: Subject;
  let owner: Customer;
  let stranger: Customer;
  let platform: Customer;
  let tokens: { owner: string; stranger: string; platform: string };

  before(async () => {
    receiver = await startReceiver();
    harness = await startHarness();
    await harness.startWorker();
    api = await startApi({ prefix: harness.db.prefix, env: { TASK_QUEUE: harness.taskQueue } });
    owner = await newCustomer(api, ['push_notifications', 'reports']);
    stranger = await newCustomer(api);
    platform = await newCustomer(api, ['enrichments']);
    tokens = {
      owner: await newToken(api, owner),
      stranger: await newToken(api, stranger),
      platform: await newToken(api, platform),
    };
    mine = await withNotification(owner, tokens.owner, 'vid-mine');
    theirs = await withNotification(stranger, tokens.stranger, 'vid-theirs');
  });
  after(async () => {
    await api.close();
    await harness.close();
    await receiver.close();
  });

  async function withNotification(customer: Customer, token: string, asset: string): Promise<Subject> {
    const client = customer.client_token;
    const query = new URLSearchParams({ access_token: token, client_token: client, url: receiver.url });
    await fetch(`${api.url}/register_push_notifications?${query}`, { method: 'POST' });
    const eventId = `of-${asset}`;
    const { id } = await harness.publish({ client, asset, eventId });
    await until(
      'it is delivered',
      async () => (await harness.notification(client, id))?.state === 'delivered',
    );
    return { clientToken: client, notificationId: id, platformId: asset, eventId };
  }

  interface Answer {
    status: number;
    headers: Record<string, string>;
    body: Record<string, unknown>;
  }

  /** Everything of an answer but what names this one request. */
  async function ask(
    name: string,
    subject: Subject,
    authorization: string | undefined,
    extraQuery: Record<string, string> = {},
  ): Promise<Answer> {
    const [method = '', path = ''] = name.split(' ');
    const call = calls[name];
    const filled = path
      .replace('{id}', encodeURIComponent(subject.notificationId))
      .replace('{event_id}', encodeURIComponent(subject.eventId))
      .replace('{platform_id}', encodeURIComponent(subject.platformId));
    const body = call?.body?.(subject);
    const answer = await fetch(
      `${api.url}${filled}?${new URLSearchParams({ ...call?.query?.(subject), ...extraQuery })}`,
      {
        method,
        headers: {
          ...(authorization !== undefined && { authorization }),
          ...(body !== undefined && { 'content-type': 'application/json' }),
        },
        body: JSON.stringify(body),
      },
    );
    const { 'x-request-id': _, date: __, ratelimit: ____, ...headers } = Object.fromEntries(answer.headers);
    const {
      request_id: ___,
      type: _type,
      title: _title,
      ...rest
    } = (await answer.json()) as Record<string, unknown>;
    return { status: answer.status, headers, body: rest };
  }

  const bearer = (token: string) => `Bearer ${token}`;
  const tokenFor = (name: string) => (calls[name]?.scope ? tokens.platform : tokens.owner);

  /**
   * Everything that Redis holds of the clients and accounts, but counts of attempts, which are written seconds later, and
   * the processes, which say every few seconds that they run.
   */
  async function everything(): Promise<string[]> {
    const { redis, nodes } = api.deps.db;
    const keys: string[] = [];
    for (const server of nodes.primaries()) {
      for await (const page of server.scanStream({ match: `${api.prefix}*`, count: 500 }))
        keys.push(...(page as string[]));
    }
    const kept = keys
      .filter(
        (key) =>
          !/access-token|account-rate|decision:|send-limit|disk-mark|token-failures|attempts-by:|processes$/.test(
            key,
          ),
      )
      .sort();
    const dumps = await Promise.all(kept.map((key) => redis.dumpBuffer(key)));
    return kept.map((key, i) => `${key} ${dumps[i]?.toString('base64')}`);
  }

  it('has a row for every call of the description', () => {
    const described = Object.entries(openapi.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    assert.deepEqual(described.toSorted(), [...Object.keys(calls), ...open].toSorted());
    for (const [path, methods] of Object.entries(openapi.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        const name = `${method.toUpperCase()} ${path}`;
        assert.equal(operation.security.length > 0, name in calls, `${name}: public calls have []`);
      }
    }
  });

  describe('without a valid token', () => {
    let invalid: Record<string, string>;
    let shortLived: RunningApi;

    after(() => shortLived.close());
    before(async () => {
      const { db } = api.deps;
      shortLived = await startApi({ prefix: api.prefix, env: { ACCESS_TOKEN_TTL_SECONDS: '0.05' } });
      const fresh = async (customer: Customer) => ({ customer, token: await newToken(api, customer) });
      const disabled = await fresh(await newCustomer(api));
      await setDisabled(db, disabled.customer.account_id, true);
      const enabledAgain = await fresh(await newCustomer(api));
      await setDisabled(db, enabledAgain.customer.account_id, true);
      await setDisabled(db, enabledAgain.customer.account_id, false);
      const rotated = await fresh(await newCustomer(api));
      await rotateSecret(db, rotated.customer.account_id, { now: true });
      const expired = await newToken(shortLived, owner);
      await until('it has expired', async () => {
        return (await ask('GET /clients', mine, bearer(expired))).status === 401;
      });
      const last = tokens.owner.at(-1) === 'A' ? 'B' : 'A';
      const forged = owner.account_id.slice(4) + tokens.stranger.slice(-43);
      invalid = {
        expired,
        'of a disabled account': disabled.token,
        'of an account that was disabled and enabled again': enabledAgain.token,
        'of an account whose secret was rotated with --now': rotated.token,
        'with another last character': tokens.owner.slice(0, -1) + last,
        'without its last character': tokens.owner.slice(0, -1),
        'with a character too many': `${tokens.owner}A`,
        'of a stranger under the owner’s name': forged,
        'of 300 characters': 'A'.repeat(300),
        'of one character': 'x',
        'that is the client secret': owner.client_secret,
      };
    });

    for (const name of Object.keys(calls)) {
      it(`${name}: gives one answer to all invalid tokens, for any subject`, async () => {
        const nothing: Subject = {
          clientToken: 'SITE-of-nobody',
          notificationId: `msg_${'A'.repeat(22)}`,
          platformId: 'vid-nowhere',
          eventId: 'of-vid-nowhere',
        };
        const before = await everything();
        for (const subject of [mine, theirs, nothing]) {
          for (const [kind, token] of Object.entries(invalid)) {
            const answers = [await ask(name, subject, bearer(token))];
            if (calls[name]?.tokenInQuery)
              answers.push(await ask(name, subject, undefined, { access_token: token }));
            for (const answer of answers) {
              assert.equal(answer.headers['www-authenticate'], 'Bearer error="invalid_token"', kind);
              assert.deepEqual(
                [answer.status, answer.body],
                [401, { msg: 'The access token is no longer valid', code: 'invalid_token' }],
                kind,
              );
            }
          }
        }
        assert.deepEqual(await everything(), before);
      });

      it(`${name}: refuses no token, another scheme, and a token in the wrong place`, async () => {
        const valid = tokenFor(name);
        const tried: [string | undefined, Record<string, string>?][] = [
          [undefined],
          [''],
          ['Bearer'],
          ['Bearer '],
          [`Basic ${Buffer.from(`${owner.client_id}:${owner.client_secret}`).toString('base64')}`],
          [`Token ${valid}`],
          [valid],
          [`Bearer ${valid} ${valid}`],
          [`Bearer "${valid}"`],
        ];
        for (const [authorization, query] of tried) {
          const answer = await ask(name, mine, authorization, query);
          const missing = calls[name]?.tokenInQuery && !/^Bearer "/.test(authorization ?? '');
          assert.equal(answer.status, missing ? 400 : 401, authorization);
          if (missing) assert.equal(answer.body.msg, 'The parameter access_token is missing');
          else assert.equal(answer.body.code, 'invalid_token');
        }
        if (calls[name]?.tokenInQuery) return;
        const answer = await ask(name, mine, undefined, { access_token: valid });
        assert.equal(answer.status, 400);
        assert.match(String(answer.body.msg), /send Authorization: Bearer/);
      });

      it(`${name}: refuses a token in both places`, async () => {
        const answer = await ask(name, mine, bearer(tokenFor(name)), { access_token: tokenFor(name) });
        assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_request']);
      });
    }
  });

  describe('with the token of another account', () => {
    for (const [name] of aboutOneClient) {
      it(`${name}: answers the same for the owner’s, an unknown, a deleted and a malformed client`, async () => {
        const gone = await newCustomer(api);
        await deleteClient(api.deps.db, gone.client_token);
        const before = await everything();
        const isRegistration = calls[name]?.tokenInQuery === true;
        const expected = {
          status: isRegistration ? 401 : 404,
          body: {
            msg: 'The client token is not valid for this account',
            code: isRegistration ? 'invalid_client_token' : 'unknown_client',
          },
        };
        const answers: Answer[] = [];
        for (const clientToken of [
          mine.clientToken,
          'SITE-of-nobody',
          gone.client_token,
          'no token!',
          '☃'.repeat(65),
        ]) {
          answers.push(await ask(name, { ...mine, clientToken }, bearer(tokens.stranger)));
          if (!(calls[name]?.isForPlatform && clientToken === mine.clientToken))
            answers.push(await ask(name, { ...mine, clientToken }, bearer(tokens.platform)));
        }
        for (const answer of answers) {
          assert.deepEqual(answer, answers[0]);
          assert.deepEqual({ status: answer.status, body: answer.body }, expected);
        }
        assert.deepEqual(await everything(), before);
      });
    }

    for (const [name] of aboutOneThing) {
      it(`${name}: answers the same for the owner’s, an unknown and a malformed one`, async () => {
        const before = await everything();
        const { clientToken } = theirs;
        const about = (notificationId: string, platformId: string, eventId = platformId) =>
          ask(name, { clientToken, notificationId, platformId, eventId }, bearer(tokens.stranger));
        const answers = [
          await about(mine.notificationId, mine.platformId, mine.eventId),
          await about(`msg_${'A'.repeat(22)}`, 'vid-nowhere'),
          await about('no-id', 'x'.repeat(300)),
          await about('msg_%00', '\u0000'),
          await about(`${mine.notificationId}\n`, `../${mine.clientToken}`),
        ];
        for (const answer of answers) assert.deepEqual(answer, answers[0]);
        assert.equal(answers[0]?.status, 404);
        assert.deepEqual(await everything(), before);
      });
    }

    it('GET /clients lists only its own', async () => {
      const { body } = await ask('GET /clients', mine, bearer(tokens.stranger));
      const { clients } = body as { clients: { client_token: string }[] };
      assert.deepEqual(
        clients.map((client) => client.client_token),
        [stranger.client_token],
      );
    });
  });

  describe('with the wrong scope', () => {
    it('POST /enrichments answers 403, the same for every client token and for an invalid body', async () => {
      const before = await everything();
      const answers: Answer[] = [];
      for (const clientToken of [mine.clientToken, theirs.clientToken, 'SITE-of-nobody', 'no token!']) {
        answers.push(await ask('POST /enrichments', { ...mine, clientToken }, bearer(tokens.owner)));
      }
      for (const answer of answers) assert.deepEqual(answer, answers[0]);
      assert.equal(answers[0]?.status, 403);
      assert.match(answers[0]?.headers['www-authenticate'] ?? '', /error="insufficient_scope"/);
      assert.deepEqual(await everything(), before);
    });
  });

  describe('with the owner’s token', () => {
    it('POST /enrichments treats a deleted client as unknown', async () => {
      const gone = await newCustomer(api);
      await deleteClient(api.deps.db, gone.client_token);
      const ofGone = await ask(
        'POST /enrichments',
        { ...mine, clientToken: gone.client_token },
        bearer(tokens.platform),
      );
      const ofNone = await ask(
        'POST /enrichments',
        { ...mine, clientToken: 'SITE-of-nobody' },
        bearer(tokens.platform),
      );
      assert.deepEqual(ofGone, ofNone);
      assert.deepEqual([ofGone.status, ofGone.body.code], [404, 'unknown_client']);
    });

    for (const [name, { succeeds }] of Object.entries(calls)) {
      it(`${name}: ${succeeds}`, async () => {
        await forgetSends(api.deps.db, mine.clientToken);
        const answer = await ask(name, mine, bearer(tokenFor(name)));
        assert.equal(answer.status, succeeds);
        if (succeeds === 400) assert.equal(answer.body.code, 'already_registered');
      });
    }

    it('records in the audit each call that reads a secret, changes or sends something, and no refused one', async () => {
      const calls = await listCalls(api.deps.db);
      const done = calls.filter(({ accountId }) => accountId === owner.account_id);
      assert.deepEqual([...new Set(done.map(({ what }) => what))].sort(), [
        'check',
        'console link',
        'first token of the day',
        'notices url removed',
        'notices url set',
        'notification recover',
        'notification redeliver',
        'notification replay',
        'registration',
        'request headers set',
        'resume',
        'signing secret read',
        'signing secret rotate',
        'test',
      ]);
      const ofClients = calls.filter(
        ({ what }) => !['console link', 'first token of the day'].includes(what),
      );
      for (const { accountId, clientToken } of ofClients) {
        const of = [owner, stranger].find(({ account_id }) => account_id === accountId);
        assert.ok([of?.client_token, `notices:${accountId}`].includes(clientToken), clientToken);
      }
    });
  });
});
