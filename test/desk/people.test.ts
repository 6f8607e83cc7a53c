import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { recordChange } from '../../src/redis/records/audit.js';
import { Visitor } from '../console/visitor.js';
import { keysMatching } from '../keysMatching.js';
import { portOf } from '../receiver.js';
import { forSuite } from '../servers.js';
import { newPersonLink, personAt, startDesk } from './scene.js';

/** The package has no types. */
const providerPackage: string = 'oidc-provider';

interface Person {
  sub: string;
  name: string;
  groups?: unknown;
  [claim: string]: unknown;
}

const ada: Person = { sub: 'ada', name: 'Ada Lovelace', groups: ['staff', 'video-tam'] };

/** Answers a request in the place of the provider, unless it returns false. */
type Fault = (req: IncomingMessage, res: ServerResponse) => unknown;

const providersKey = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });

/** A real identity provider, whose people sign in as soon as they come. @param more in the place of its settings */
async function startProvider(
  redirectUri: string,
  { port, method = 'client_secret_post', ...more }: { port?: number; method?: string } & object = {},
) {
  const server = createServer();
  const issuer = `http://127.0.0.1:${await portOf(server, port)}`;
  const { default: Provider } = await import(providerPackage);
  const state = { person: ada, error: '', fault: (() => false) as Fault };
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: 'desk',
        client_secret: 'desk-secret-of-32-characters-long',
        redirect_uris: [redirectUri],
        token_endpoint_auth_method: method,
      },
    ],
    clientAuthMethods: [method],
    jwks: { keys: [{ ...providersKey, alg: 'RS256', use: 'sig' }] },
    cookies: { keys: ['a-cookie-key'] },
    pkce: { required: () => true },
    conformIdTokenClaims: false,
    claims: {
      openid: [
        'sub',
        'groups',
        'realm_access',
        'resource_access',
        'https://example.com/roles',
        'urn:zitadel:roles',
      ],
      profile: ['name'],
    },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: async () => ({ ...state.person }) }),
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
    ...more,
  });
  provider.use(async (ctx: never, next: () => Promise<void>) => {
    const { path, req, res } = ctx as { path: string; req: never; res: never };
    if (!path.startsWith('/interaction/')) return next();
    const { prompt, params, session } = await provider.interactionDetails(req, res);
    const grant = new provider.Grant({
      accountId: session?.accountId ?? state.person.sub,
      clientId: params.client_id,
    });
    grant.addOIDCScope(String(params.scope));
    const { error } = state;
    const isLogin = prompt.name === 'login';
    const login = { login: { accountId: state.person.sub } };
    const result = error ? { error } : isLogin ? login : { consent: { grantId: await grant.save() } };
    await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: true });
  });
  const answer = provider.callback();
  server.on('request', (req, res) => state.fault(req, res) || answer(req, res));
  return { server, issuer, state };
}

function end(server: Server): void {
  server.close();
  server.closeAllConnections();
}

/** What a browser is to the provider: it keeps cookies and follows redirects, until one leads back to the desk. */
async function follow(from: string, change: (url: URL) => URL = (url) => url): Promise<string> {
  const cookies = new Map<string, string>();
  for (let url = change(new URL(from)); ; ) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(url, { redirect: 'manual', headers: { cookie } });
    for (const set of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? [];
      cookies.set(name, value);
    }
    const to = answer.headers.get('location');
    assert.ok(to, `${url.pathname}: ${answer.status} ${await answer.text()}`);
    url = new URL(to, url);
    if (url.pathname === '/desk/callback') return url.pathname + url.search;
  }
}

describe('desk: people', () => {
  const scene = forSuite(() =>
    startDesk({
      OPERATOR_OIDC_ISSUER: 'http://127.0.0.1:1',
      OPERATOR_OIDC_CLIENT_ID: 'desk',
      OPERATOR_OIDC_CLIENT_SECRET: 'desk-secret-of-32-characters-long',
      TRUSTED_PROXIES: '127.0.0.1/32',
      OPERATOR_OIDC_ROLES: 'groups:video-tam=support,video-ops=admin,staff=look',
    }),
  );
  let provider: Awaited<ReturnType<typeof startProvider>>;
  let addresses = 0;
  before(async () => {
    provider = await startProvider(`${scene.url}/desk/callback`);
    scene.h.apiDeps.config.OPERATOR_OIDC_ISSUER = provider.issuer;
  });
  beforeEach(() => {
    Object.assign(provider.state, { person: ada, error: '', fault: () => false });
  });
  after(async () => {
    end(provider.server);
    await scene.close();
  });

  /** Signs in up to the moment when the browser comes back. */
  async function comeBack(change?: (url: URL) => URL, visitor = new Visitor(scene.url)) {
    const begun = await visitor.get('/desk/sign_in', { 'x-forwarded-for': `198.51.100.${++addresses}` });
    assert.equal(begun.status, 303, begun.html);
    return { visitor, back: await follow(begun.headers.get('location') ?? '', change) };
  }

  const finish = ({ visitor, back }: Awaited<ReturnType<typeof comeBack>>) => visitor.get(back);

  /** Puts another provider in the place of the one that the desk knows. */
  async function replaceProvider(more: object) {
    end(provider.server);
    const { port } = new URL(provider.issuer);
    provider = await startProvider(`${scene.url}/desk/callback`, { port: Number(port), ...more });
  }

  it('sign in with the provider, get the highest role that the claim names, and are in the audit', async () => {
    const { visitor, back } = await comeBack();
    const copy = new Visitor(scene.url);
    const wanted = '/desk/do/audit?of=SITE0042';
    await copy.get(wanted);
    visitor.cookie = copy.cookie += `; ${visitor.cookie}`;
    const page = await finish({ visitor, back });
    assert.deepEqual([page.status, page.headers.get('location')], [303, `${wanted}&entered`]);
    const now = await visitor.get('/desk');
    assert.match(now.html, /Ada Lovelace <span class="badge">support<\/span>/);
    const { who, after } = (await scene.cli.json('audit', '--what', 'desk opened')).at(-1);
    assert.deepEqual([who, after], ['Ada Lovelace (signed in as ada)', { role: 'support' }]);
    assert.equal((await copy.get(back)).status, 400, 'a sign-in works once');
    const out = await visitor.submit(now, '/desk/sign_out');
    assert.match(out.html, new RegExp(`href="${provider.issuer}/session/end`));
    assert.equal((await visitor.get('/desk')).headers.get('location'), '/desk/open');
  });

  it('are told apart in the audit, whatever they call themselves', async () => {
    for (const [name, shown] of [
      ['Ada Lovelace (signed in as ada)', 'Ada Lovelace signed in as ada'],
      ['\u200b', 'eve'],
    ] as const) {
      provider.state.person = { sub: 'eve', name, groups: ['staff'] };
      assert.equal((await finish(await comeBack())).status, 303);
      const { who } = (await scene.cli.json('audit', '--what', 'desk opened')).at(-1);
      assert.equal(who, `${shown} (signed in as eve)`);
    }
  });

  it('are not let in with a wrong nonce, without a role, in another browser, or too late', async () => {
    const wrongNonce = await comeBack((url) => {
      url.searchParams.set('nonce', 'of-somebody-else');
      return url;
    });
    const refused = await finish(wrongNonce);
    assert.deepEqual([refused.status, refused.headers.getSetCookie()], [401, []]);
    assert.match(refused.html, /The sign-in was not accepted \(OAUTH_JWT_CLAIM_COMPARISON_FAILED\)/);

    provider.state.person = { sub: 'eve', name: 'Eve', groups: ['visitors'] };
    const noRole = await finish(await comeBack());
    assert.equal(noRole.status, 403);
    assert.match(
      noRole.html,
      /as Eve, but have no role here: your claim “groups” names none: \[&#34;visitors&#34;\]/,
    );
    provider.state.person = { sub: 'eve', name: '\u200b' };
    assert.match((await finish(await comeBack())).html, /as eve, .* claim “groups” was not sent/);

    provider.state.person = ada;
    const { back } = await comeBack();
    assert.equal((await new Visitor(scene.url).get(back)).status, 400);

    const late = await comeBack();
    const keys = await keysMatching(scene.h.db, `${scene.h.prefix}operator-sign-in:*`);
    await Promise.all(keys.map((key) => scene.h.db.redis.pexpire(key, 0)));
    const expired = await finish(late);
    assert.equal(expired.status, 400);
    assert.match(expired.html, /took longer than 10 minutes/);
  });

  it('sign in in two tabs at once', async () => {
    const first = await comeBack();
    const second = await comeBack(undefined, first.visitor);
    const { cookie } = first.visitor;
    for (const { visitor, back } of [second, first]) {
      visitor.cookie = cookie;
      assert.equal((await visitor.get(back)).status, 303);
    }
  });

  it('begin any number of sign-ins from one address, paced; of one person 60 a minute end in a session', async () => {
    const from = { 'x-forwarded-for': '203.0.113.9' };
    for (let i = 0; i < 61; i++)
      assert.equal((await new Visitor(scene.url).get('/desk/sign_in', from)).status, 303);
    await comeBack();
  });

  const roles: [claim: string, of: object, role: string | RegExp, provider?: object][] = [
    ['groups', { groups: 'video-tam' }, 'support'],
    ['groups', { groups: 'not video-tam' }, /names none: &#34;not video-tam&#34;/],
    ['groups.name', { groups: [{ id: 7 }, { id: 8, name: 'video-tam' }] }, 'support'],
    ['groups.value', { groups: [{ value: 'video-tam', display: 'TAM' }] }, 'support'],
    ['groups', { groups: [{ name: 'video-tam', value: 'video-tam' }] }, /names none: \[\{/],
    ['groups', { groups: { 'video-tam': true } }, 'support'],
    ...[false, null, 0, 1, '', 'no', 'true', {}, [], { granted: false }].map(
      (value): [string, object, RegExp] => ['groups', { groups: { 'video-tam': value } }, /names none: \{/],
    ),
    ...[false, null, '', 'no', {}].map((value): [string, object, RegExp] => [
      'groups.*',
      { groups: { 'video-tam': value } },
      /names none: \{/,
    ]),
    ['realm_access.roles', { realm_access: { roles: ['offline', 'video-tam'] } }, 'support'],
    ['realm_access.roles', { realm_access: ['roles'] }, /“realm_access\.roles” was not sent/],
    [
      'resource_access.com.desk.roles',
      { resource_access: { 'com.desk': { roles: ['video-tam'] } } },
      'support',
    ],
    ['https://example.com/roles', { 'https://example.com/roles': ['video-tam'] }, 'support'],
    ['urn:zitadel:roles.*', { 'urn:zitadel:roles': { 'video-tam': { 1: 'example.com' } } }, 'support'],
    [
      'groups',
      {},
      'support',
      { claims: { openid: ['sub'], profile: ['groups'] }, conformIdTokenClaims: true },
    ],
    ['groups', {}, 'support', { claims: { openid: ['sub'], groups: ['groups'] } }],
  ];
  for (const [claim, of, role, settings] of roles)
    it(`have the role that ${claim} names${settings ? ` as ${JSON.stringify(settings)} tells it` : ''}: ${JSON.stringify(of)}`, async () => {
      const { config } = scene.h.apiDeps;
      const { OPERATOR_OIDC_ROLES } = config;
      config.OPERATOR_OIDC_ROLES = `${claim}:video-tam=support`;
      await replaceProvider(settings ?? {});
      provider.state.person = { ...ada, ...of };
      const come = await comeBack();
      const page = await finish(come);
      config.OPERATOR_OIDC_ROLES = OPERATOR_OIDC_ROLES;
      if (role instanceof RegExp) return assert.match(page.html, role);
      assert.equal(page.status, 303, page.html);
      assert.match((await come.visitor.get('/desk')).html, new RegExp(`<span class="badge">${role}</span>`));
    });

  const faults: Record<string, [fault: Fault, says: RegExp]> = {
    'an error of its own': [(_, res) => res.writeHead(500).end('oops'), /answers wrongly \(500 /],
    'no such page': [(_, res) => res.writeHead(404).end(), /answers wrongly \(404 /],
    'a page': [
      (_, res) => res.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Sign in</h1>'),
      /answers wrongly \(200 OAUTH_RESPONSE_IS_NOT_JSON\)/,
    ],
    'a redirect': [(_, res) => res.writeHead(302, { location: '/' }).end(), /answers wrongly \(302 /],
    nothing: [(_, res) => res.destroy(), /does not answer/],
  };
  for (const path of ['/.well-known/openid-configuration', '/token', '/jwks'])
    for (const [what, [fault, says]] of Object.entries(faults))
      it(`are told if the provider answers ${what} at ${path}`, async () => {
        const come = await comeBack();
        provider.state.fault = (req, res) => req.url === path && (fault(req, res) ?? true);
        const page = await finish(come);
        assert.equal(page.status, 503);
        assert.match(page.html, says);
      });

  for (const [error, status] of Object.entries({
    access_denied: 401,
    login_required: 401,
    server_error: 503,
  }))
    it(`are told why the provider refuses: ${error}`, async () => {
      provider.state.error = error;
      const page = await finish(await comeBack());
      assert.equal(page.status, status);
      assert.match(page.html, new RegExp(`\\(${error}\\)`));
    });

  it('are told no other word of the provider, and why the desk itself is refused', async () => {
    provider.state.error = 'call_this_number';
    const page = await finish(await comeBack());
    assert.match(page.html, /\(OAUTH_AUTHORIZATION_RESPONSE_ERROR\)/);
    provider.state.error = '';
    const { config } = scene.h.apiDeps;
    const { OPERATOR_OIDC_CLIENT_SECRET } = config;
    config.OPERATOR_OIDC_CLIENT_SECRET = 'of-last-year';
    const refused = await finish(await comeBack());
    config.OPERATOR_OIDC_CLIENT_SECRET = OPERATOR_OIDC_CLIENT_SECRET;
    assert.match(refused.html, /not accepted \(401 invalid_client\)/);
  });

  for (const [seconds, status] of [
    [280, 303],
    [320, 401],
  ] as const)
    it(`get ${status} if the service's clock is ${seconds} s past the end of the ID token`, async () => {
      await replaceProvider({ ttl: { IdToken: 60 } });
      const { now } = Date;
      provider.state.fault = ({ url }, res) => {
        if (url === '/token') res.on('finish', () => (Date.now = () => now() + (60 + seconds) * 1000));
        return false;
      };
      const page = await finish(await comeBack());
      Date.now = now;
      assert.equal(page.status, status, page.html);
    });

  it('sign in while the provider changes its keys and the way in which it takes the secret', async () => {
    assert.equal((await finish(await comeBack())).status, 303);
    await replaceProvider({ method: 'client_secret_basic' });
    assert.equal((await finish(await comeBack())).status, 303);
  });

  it('come in by a link once; their session ends when an operator ends all', async () => {
    const { cli, url } = scene;
    const open = async (link: string) => {
      const visitor = new Visitor(url);
      const page = await visitor.post('/desk/open', { link: new URL(link).hash.slice(1) });
      return { visitor, page };
    };
    const link = await newPersonLink(scene, 'look', 'Grace');
    const { visitor, page } = await open(link);
    assert.deepEqual([page.status, page.headers.get('location')], [303, '/desk?entered']);
    assert.equal((await open(link)).page.status, 401);
    for (const around of ['"#"', '<#>', ' #\u200b\n', 'Open #. It works once.']) {
      const pasted = around.replace('#', await newPersonLink(scene, 'look', 'Grace'));
      assert.equal((await new Visitor(url).post('/desk/open', { link: pasted })).status, 303, around);
    }
    const now = await visitor.get('/desk');
    assert.match(now.html, /aria-label="Owed, none"/);

    const { url: made } = await cli.json('desk', '--role', 'support', '--name', 'Ada');
    const another = (await open(made)).visitor;
    assert.equal((await another.get('/desk')).status, 200);
    const unused = await newPersonLink(scene, 'admin', 'Eve');
    await cli.json('desk', '--end');
    assert.equal((await another.get('/desk')).status, 303);
    assert.equal((await open(unused)).page.status, 401);
  });

  it('give a reason for every change, and find it in the audit and its CSV', async () => {
    const visitor = await personAt(scene, 'admin', 'Ada');
    const action = '/desk/do/account/create';
    const page = await visitor.get(action);
    const without = await visitor.submit(page, action, { name: 'Media', reason: '' });
    assert.deepEqual([without.status, /<p>Why: is missing/.test(without.html)], [400, true]);
    const made = await visitor.submit(page, action, { name: '＝1+1', reason: 'ticket 4711' });
    assert.match(made.html, /shown only once/);
    const entry = (await scene.cli.json('audit')).at(-1);
    assert.deepEqual([entry.who, entry.what, entry.why], ['Ada (link)', 'account create', 'ticket 4711']);
    const askCsv = (list: string, query = '') =>
      fetch(`${scene.url}/desk/do/${list}.csv${query}`, { headers: { cookie: visitor.cookie } });
    const csvOf = async (list: string) => Buffer.from(await (await askCsv(list)).arrayBuffer()).toString();
    assert.match(await csvOf('account/list'), /"'＝1\+1"/, 'Excel takes it for a formula');
    const csv = await csvOf('audit');
    assert.match(csv, /^\ufeffat,who,/, 'Excel takes other bytes for those of its own code page');
    assert.match(csv, /"Ada \(link\)","account create","acc_[\w-]+","","\{/);
    const change = { who: 'Busy', what: 'client set', before: null, after: null };
    const recorded = Array.from({ length: 1200 }, (_, i) => `N${i}`);
    await Promise.all(recorded.map((target) => recordChange(scene.h.db, { ...change, target })));
    const long = await askCsv('audit', '?who=Busy');
    assert.equal(long.headers.get('content-length'), null, 'in pieces: other calls are served meanwhile');
    const targets = (await long.text()).match(/(?<=")N\d+(?=")/g);
    assert.deepEqual(targets, recorded.toReversed());
    const { now } = Date;
    Date.now = () => now() + 8 * 86_400_000;
    const later = await Promise.all([visitor.get('/desk/do/audit').then(({ html }) => html), csvOf('audit')]);
    Date.now = now;
    assert.match(later[0], /0 entries of the last 7 days.*All of it as CSV/s);
    assert.match(later[1], /"account create"/, 'all of it');
    const filtered = await visitor.get('/desk/do/audit?since=&who=nobody');
    assert.match(filtered.html, /0 entries of the last 7 days/);
    assert.match(filtered.html, /No entry matches/);
    assert.match(filtered.html, /name="who" value="nobody"/, 'what was typed');
    const states = await visitor.get('/desk/do/client/list?state=paused&name=%22%3E');
    assert.match(states.html, /<option value="paused" selected>/, 'a browser may translate the text');
    assert.match(states.html, /name="name" value="&#34;&#62;"/);
    assert.match((await visitor.get('/desk/do/audit?who=+ada+&what=ACCOUNT')).html, />account create</);
    const customer = await visitor.get(`/desk/accounts/${entry.target}`);
    assert.match(customer.html, /no URL is registered/);
    const of = await visitor.get(`/desk/do/audit?of=${entry.target}`);
    assert.match(of.html, /<p>1 entry\.</, 'all of it');
    const create = ['client', 'create', '--account', entry.target, '--name', 'S'];
    const { client_token } = await scene.cli.json(...create);
    await visitor.submit(await visitor.get('/desk/do/client/set'), '/desk/do/client/set', {
      client_token: ` ${client_token} `,
      max_in_flight: '3',
      reason: 'more',
    });
    assert.match((await visitor.get(`/desk/do/audit?of=${client_token}`)).html, /max_in_flight=3</);
    for (const [from, query] of [
      ['/desk/do/audit', '?since=yesterday'],
      [`/desk/clients/${client_token}`, '/notifications?state=lost'],
    ])
      assert.match((await visitor.get(`${from}${query}`)).html, new RegExp(`<a href="${from}">Back</a>`));
  });
});
