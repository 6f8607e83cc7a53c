import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { recordChange } from '../../src/redis/records/audit.js';
import { Visitor } from '../console/visitor.js';
import { keysMatching } from '../keysMatching.js';
import { portOf } from '../receiver.js';
import { type DeskScene, newPersonLink, startDesk } from './scene.js';

/** The package has no types. */
const providerPackage: string = 'oidc-provider';

interface Person {
  sub: string;
  name: string;
  groups?: string[];
}

const ada: Person = { sub: 'ada', name: 'Ada Lovelace', groups: ['staff', 'video-tam'] };

/** A real identity provider with a new key, whose people sign in as soon as they come. */
async function startProvider(redirectUri: string, port?: number, method = 'client_secret_post') {
  const server = createServer();
  const issuer = `http://127.0.0.1:${await portOf(server, port)}`;
  const { default: Provider } = await import(providerPackage);
  const state = { person: ada };
  const key = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' });
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
    jwks: { keys: [{ ...key, alg: 'RS256', use: 'sig' }] },
    cookies: { keys: ['a-cookie-key'] },
    pkce: { required: () => true },
    conformIdTokenClaims: false,
    claims: { openid: ['sub', 'groups'], profile: ['name'] },
    findAccount: (_: unknown, id: string) => ({ accountId: id, claims: async () => ({ ...state.person }) }),
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_: unknown, { uid }: { uid: string }) => `/interaction/${uid}` },
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
    const result =
      prompt.name === 'login'
        ? { login: { accountId: state.person.sub } }
        : { consent: { grantId: await grant.save() } };
    await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: true });
  });
  server.on('request', provider.callback());
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
  let scene: DeskScene;
  let provider: Awaited<ReturnType<typeof startProvider>>;
  before(async () => {
    scene = await startDesk({
      OPERATOR_OIDC_ISSUER: 'http://127.0.0.1:1',
      OPERATOR_OIDC_CLIENT_ID: 'desk',
      OPERATOR_OIDC_CLIENT_SECRET: 'desk-secret-of-32-characters-long',
      OPERATOR_OIDC_ROLES: 'groups:video-tam=support,video-ops=admin,staff=look',
    });
    provider = await startProvider(`${scene.url}/desk/callback`);
    scene.h.apiDeps.config.OPERATOR_OIDC_ISSUER = provider.issuer;
  });
  beforeEach(() => {
    provider.state.person = ada;
  });
  after(async () => {
    end(provider.server);
    await scene.close();
  });

  /** Signs in up to the moment when the browser comes back. */
  async function comeBack(change?: (url: URL) => URL) {
    const visitor = new Visitor(scene.url);
    const begun = await visitor.get('/desk/sign_in');
    assert.equal(begun.status, 303, begun.html);
    return { visitor, back: await follow(begun.headers.get('location') ?? '', change) };
  }

  /** Keeps the session's cookie, which comes after that of the sign-in. */
  async function finish({ visitor, back }: Awaited<ReturnType<typeof comeBack>>) {
    const page = await visitor.get(back);
    const session = page.headers.getSetCookie().find((set) => /^desk_session=[^;]/.test(set));
    visitor.cookie = session?.split(';')[0] ?? '';
    return page;
  }

  it('sign in with the provider, get the highest role that the claim names, and are in the audit', async () => {
    const { visitor, back } = await comeBack();
    const copy = new Visitor(scene.url);
    copy.cookie = visitor.cookie;
    const page = await finish({ visitor, back });
    assert.deepEqual([page.status, page.headers.get('location')], [303, '/desk']);
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
    assert.deepEqual([refused.status, wrongNonce.visitor.cookie], [401, '']);
    assert.match(refused.html, /The sign-in was not accepted/);

    provider.state.person = { sub: 'eve', name: 'Eve', groups: ['visitors'] };
    const noRole = await finish(await comeBack());
    assert.equal(noRole.status, 403);
    assert.match(noRole.html, /as Eve, but have no role here: your claim “groups” names none/);
    provider.state.person = { sub: 'eve', name: '\u200b' };
    assert.match((await finish(await comeBack())).html, /as eve, .* claim “groups” is not in the ID token/);

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

  it('sign in while the provider changes its keys, and are told when it is away', async () => {
    const { port } = new URL(provider.issuer);
    const redirectUri = `${scene.url}/desk/callback`;
    assert.equal((await finish(await comeBack())).status, 303);
    end(provider.server);
    const away = await new Visitor(scene.url).get('/desk/sign_in');
    assert.equal(away.status, 503);
    assert.match(away.html, /identity provider does not answer/);
    provider = await startProvider(redirectUri, Number(port), 'client_secret_basic');
    assert.equal((await finish(await comeBack())).status, 303);
    scene.h.apiDeps.config.OPERATOR_OIDC_ISSUER = `${provider.issuer}/nowhere`;
    const wrong = await new Visitor(scene.url).get('/desk/sign_in');
    assert.equal(wrong.status, 503);
    assert.match(wrong.html, /identity provider answers wrongly: the service’s log says why/);
    scene.h.apiDeps.config.OPERATOR_OIDC_ISSUER = provider.issuer;
    const begun = await comeBack();
    end(provider.server);
    assert.equal((await finish(begun)).status, 503);
    provider = await startProvider(redirectUri, Number(port));
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
    assert.deepEqual([page.status, page.headers.get('location')], [303, '/desk']);
    assert.equal((await open(link)).page.status, 401);
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

  it('send forms of their own pages only, with a reason for every change', async () => {
    const visitor = new Visitor(scene.url);
    await visitor.post('/desk/open', { link: await newPersonLink(scene, 'admin', 'Ada') });
    const action = '/desk/do/account/create';
    const page = await visitor.get(action);
    const without = await visitor.submit(page, action, { name: 'Media', reason: '' });
    assert.deepEqual([without.status, /The reason is missing/.test(without.html)], [400, true]);
    const forged = { name: 'Media', reason: 'x', form_token: 'made-up' };
    assert.equal((await visitor.post(action, forged)).status, 403);
    const lost = await new Visitor(scene.url).submit(page, action, { name: 'Media', reason: 'x' });
    const asked = await visitor.get(lost.headers.get('location') ?? '');
    assert.match(asked.html, /your session has ended\. A form that was sent since has changed nothing\./);
    const elsewhere = await visitor.post(action, { name: 'Media' }, { origin: 'https://evil.example' });
    assert.equal(elsewhere.status, 403);
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
    assert.match(csv, /"Ada \(link\)","account create","acc_[\w-]+"/);
    const change = { who: 'Busy', what: 'client set', before: null, after: null };
    for (let i = 0; i < 1200; i++) await recordChange(scene.h.db, { ...change, target: `N${i}` });
    const long = await askCsv('audit', '?who=Busy');
    assert.equal(long.headers.get('content-length'), null, 'in pieces: other calls are served meanwhile');
    const targets = (await long.text()).match(/(?<=")N\d+(?=")/g);
    assert.deepEqual(
      targets,
      Array.from({ length: 1200 }, (_, i) => `N${1199 - i}`),
    );
    const filtered = await visitor.get('/desk/do/audit?since=&who=nobody');
    assert.match(filtered.html, /0 entries of the last 7 days/);
    assert.match(filtered.html, /No entry matches/);
    assert.match(filtered.html, /name="who" value="nobody"/, 'what was typed');
    const states = await visitor.get('/desk/do/client/list?state=paused&name=%22%3E');
    assert.match(states.html, /<option selected>paused<\/option>/);
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
    assert.match((await visitor.get(`/desk/do/audit?of=${client_token}`)).html, /=3 max_per_second=null/);
  });
});
