/**
 * Every door, as each who may come in: what is secret shows to those alone to whom it is due. Calls, operations and forms are made from
 * their declarations, also forms that no page offers to the one who sends them, and pages are found from page to page, so a new one is
 * walked too.
 */
import assert from 'node:assert/strict';
import { siteActions } from '../../src/api/console/actions.js';
import { shared } from '../../src/constants.js';
import { noticesClient } from '../../src/ids.js';
import { nameOf, type Operation } from '../../src/operator/operation.js';
import { operations } from '../../src/operator/operations.js';
import { claimOnly } from '../../src/redis/owed/claim.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { changeRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { createSigningSecret, readSecrets } from '../../src/redis/records/secrets.js';
import { calls, requestOf } from '../api/everyCall.js';
import { formTokenIn, signedIn, Visitor } from '../console/visitor.js';
import { itOfFamily } from '../families.js';
import { registeredClient } from '../operator/cli.js';
import { type Receiver, startReceiver } from '../receiver.js';
import { openForSuite } from '../servers.js';
import { arrivedEvent, type Customer, callApi, newCustomer, newToken } from '../service.js';
import { type DeskScene, inputOf, pathOf, personAt, type Site, startDesk } from './scene.js';

const headerValue = 'S3cretGatewayKey';
const urlSecret = 'url-secret';

/** What an answer, a page or a request to the walker's own receiver may show. */
const secrets = {
  'a header value': new RegExp(headerValue),
  'the whole URL': new RegExp(urlSecret),
  'a client secret': /"client_secret":\s*"|<dt>client_secret/i,
  'another account': /Neighbour/,
};
type Secret = keyof typeof secrets | 'the signing secret';

interface Place {
  scene: DeskScene;
  site: Site;
  owner: Customer;
  /** Their tokens: for general use, and with every scope of the account. */
  tokens: { general: string; full: string };
  mine: Receiver;
  look(door: string, text: string): void;
}

/** How the registration stands when the walker comes. */
const states: Record<string, (place: Place) => Promise<unknown>> = {
  'a URL is registered': async ({ owner, site, scene }) => setHeaders(owner, () => register(scene, site)),
  'an operator has removed the URL': async ({ owner, site, scene }) => {
    await setHeaders(owner, () => register(scene, site));
    await resetRegistration(scene.h.db, site.client);
  },
  'an operator has changed the URL': async ({ owner, site, scene, mine }) => {
    await setHeaders(owner, () => register(scene, site));
    await changeRegistration(scene.h.db, site.client, mine.url);
  },
  'no URL was registered': async ({ owner }) => setHeaders(owner, async () => {}),
};

async function setHeaders(owner: Customer, first: () => Promise<unknown>): Promise<void> {
  await first();
  const headers = { 'X-Gateway-Key': headerValue };
  assert.equal((await owner.call('PUT', '/push_notifications/headers', { headers })).status, 200);
}

const register = ({ h }: DeskScene, { client }: Site) =>
  h.registerUrl(client, `http://127.0.0.1:9/hook?key=${urlSecret}`);

/** Who walks, what is due to them whatever the state, and what they do. The sample has those who may only look where a URL is registered. */
const walkers: Record<string, [due: Secret[], walk: (place: Place) => Promise<void>]> = {
  'a token for general use': [['the whole URL'], (place) => walkCalls(place, place.tokens.general)],
  'a token with signing_secrets': [
    ['the signing secret', 'a header value', 'the whole URL'],
    (place) => walkCalls(place, place.tokens.full),
  ],
  'a token of another account': [
    [],
    async (place) => walkCalls(place, (await newCustomer(place.scene.h)).token),
  ],
  'a token of the platform': [
    [],
    async (place) => walkCalls(place, (await newCustomer(place.scene.h, ['enrichments'])).token),
  ],
  'a session that may only look': [[], (place) => walkConsole(place, place.tokens.full, '?access=read')],
  'a session of a token for general use': [
    ['the whole URL'],
    (place) => walkConsole(place, place.tokens.general),
  ],
  'a session of a token with signing_secrets': [
    ['the signing secret', 'a header value', 'the whole URL'],
    (place) => walkConsole(place, place.tokens.full),
  ],
  'a session of another account': [
    [],
    async (place) => walkConsole(place, (await newCustomer(place.scene.h)).token),
  ],
  'an operator who may look': [['another account'], (place) => walkOperations(place, 'look')],
  'a session of the platform': [
    [],
    async (place) => walkConsole(place, (await newCustomer(place.scene.h, ['enrichments'])).token),
  ],
  'an operator of support': [
    ['the whole URL', 'another account'],
    (place) => walkOperations(place, 'support'),
  ],
  'an admin': [
    ['the signing secret', 'a header value', 'the whole URL', 'another account', 'a client secret'],
    (place) => walkOperations(place, 'admin'),
  ],
};

async function walkCalls({ scene, site, owner, mine, look }: Place, token: string): Promise<void> {
  const subject = { client_token: site.client, id: site.id, platform_id: 'vid-1', event_id: 'an-1' };
  // This one replaces the headers.
  const inOrder = calls.filter(({ needsToken }) => needsToken);
  inOrder.sort((a, b) => Number(a.name.endsWith('/headers')) - Number(b.name.endsWith('/headers')));
  for (const call of inOrder) {
    const { filled, query, json } = requestOf(call, subject, { url: mine.url, owner });
    if (call.names.includes('client_token')) query.set('client_token', site.client);
    if (call.names.includes('url')) query.set('url', mine.url);
    if (call.isRegistration) query.delete('access_token');
    await owner.forgetSends();
    const { text } = await callApi(
      token,
      call.method.toUpperCase(),
      new URL(`${filled}?${query}`, scene.h.url),
      json,
    );
    look(call.name, text.replaceAll(token, ''));
  }
}

/** Goes from page to page. @returns the pages' addresses */
async function walkPages(visitor: Visitor, { look }: Place, starts: Iterable<string>, within: RegExp) {
  const known = new Set(starts);
  // What is added on the way is gone through too.
  for (const path of known) {
    const { html } = await visitor.get(path);
    look(path, html);
    for (const [, href = ''] of html.matchAll(/href="([^"#]*)"/g)) {
      const to = href.replaceAll('&#38;', '&').replaceAll('&amp;', '&');
      if (within.test(to)) known.add(to);
    }
  }
  return known;
}

const ofConsole = /^\/console(?!\/(assets|open))/;

async function walkConsole(place: Place, token: string, query = ''): Promise<void> {
  const { scene, tokens } = place;
  const owner = await signedIn(scene.h, tokens.full, '?access=read');
  const pages = await walkPages(owner, { ...place, look() {} }, ['/console'], ofConsole);
  await walkSession(place, await signedIn(scene.h, token, query), pages);
}

/** Walks pages from these on, and sends each form of the owner's site. */
async function walkSession(place: Place, visitor: Visitor, pages: Iterable<string>): Promise<void> {
  const { site, owner, mine, look } = place;
  await walkPages(visitor, place, pages, ofConsole);
  const form_token = formTokenIn((await visitor.get('/console')).html);
  const paths = Object.keys(siteActions).map(
    (path) => `sites/${site.client}/${path.replace(':id', site.id)}`,
  );
  for (const path of [...paths, 'notices/test']) {
    await owner.forgetSends();
    const fields = { form_token, hours: '1', reason: 'a walk', url: mine.url };
    look(`form ${path}`, (await visitor.post(`/console/${path}`, fields)).html);
  }
}

async function walkOperations(place: Place, role: 'look' | 'support' | 'admin'): Promise<void> {
  const { scene, site } = place;
  const visitor = await personAt(scene, role);
  const own = [`/desk/clients/${site.client}`, `/desk/accounts/${site.account_id}`];
  await walkPages(
    visitor,
    place,
    own,
    new RegExp(`^/desk/(clients/${site.client}|accounts/${site.account_id})`),
  );
  const link = await scene.call(role, 'POST', '/operator/console', { account_or_client: site.client });
  if (link.status === 200) {
    const session = new Visitor(scene.h.url);
    await session.post('/console/open', { link: new URL(link.body.url).hash.slice(1) });
    await walkSession(place, session, ['/console']);
  }
  const form_token = formTokenIn((await visitor.get('/desk/do')).html);
  for (const operation of [...operations].sort((a, b) => endOf(a) - endOf(b)))
    await walkOperation(place, role, operation, visitor, form_token);
}

/** What takes from the others what they could show comes last. */
const endOf = (one: Operation): number =>
  nameOf(one) === 'client delete'
    ? 2
    : Number(one.group === 'Delete' || one.group === 'URL' || nameOf(one) === 'account set');

/** Carries out an operation as a program does, and by its page and form. */
async function walkOperation(
  { scene, site, mine, look }: Place,
  role: 'look' | 'support' | 'admin',
  operation: Operation,
  visitor: Visitor,
  form_token: string,
): Promise<void> {
  const path = pathOf(operation);
  const { dry_run: _, ...input }: Record<string, unknown> = {
    ...inputOf(operation, site),
    ...('url' in operation.input.shape && { url: mine.url }),
  };
  const fields = Object.fromEntries(
    Object.entries(input).map(([member, value]) => [member, [value].flat().join(' ')]),
  );
  const query = new URLSearchParams(fields);
  const { text } = operation.changes
    ? await scene.call(role, 'POST', path, { ...input, reason: 'a walk' })
    : await scene.call(role, 'GET', `${path}?${query}`);
  look(path, text);
  const page = path.replace('/operator/', '/desk/do/');
  look(`page ${page}`, (await visitor.get(`${page}?${query}`)).html);
  if (operation.list) look(`${page}.csv`, (await visitor.get(`${page}.csv?${query}`)).html);
  if (!operation.changes) return;
  const sent = { form_token, ...fields, typed: Object.values(fields).at(-1) ?? '', reason: 'a walk' };
  const forms = 'dry_run' in operation.input.shape ? [sent, { ...sent, counted: 'true' }] : [sent];
  for (const form of forms) look(`form ${page}`, (await visitor.post(page, form)).html);
}

/** Another member is the first each time. */
const inTurn = <T>(all: readonly T[], i: number): T[] => [
  ...all.slice(i % all.length),
  ...all.slice(0, i % all.length),
];

describe('What is secret', () => {
  const settings = { ACCOUNT_RATE_PER_SECOND: '1000', TOKEN_RATE_PER_SECOND: '1000' };
  const scene = openForSuite(() => startDesk(settings));
  before(async () => {
    const { account_id } = await createAccount(scene.h.db, { name: 'Neighbour' });
    await registeredClient(
      scene.cli,
      account_id,
      `Neighbour-${scene.cli.prefix.slice(0, 20)}`,
      'http://127.0.0.1:9/n',
    );
  });

  // Each walker in one state, and each state with some.
  const itOne = itOfFamily(Object.keys(states).length);
  for (const [i, [who, [due, walk]]] of Object.entries(walkers).entries())
    for (const [state, prepare] of inTurn(Object.entries(states), i))
      itOne(`shows to ${who} only where it is due, when ${state}`, async () => {
        const mine = await startReceiver();
        const owner = await newCustomer(scene.h, ['push_notifications', 'signing_secrets']);
        const { account_id, client_id, client_secret, client_token: client } = owner;
        const general = await newToken(scene.h, { ...owner, scopes: ['push_notifications'] });
        const { id } = await scene.h.publish({ client, asset: 'vid-1', eventId: 'an-1' });
        const shown: [door: string, text: string][] = [];
        const box = createSecretBox(scene.h.apiDeps.config.SECRETS_KEY);
        const first = await createSigningSecret(scene.h.db, box, client);
        const place: Place = {
          scene,
          site: { account_id, client_id, client_secret, client, id } as Site,
          owner,
          tokens: { general, full: owner.token },
          mine,
          look: (door, text) => void shown.push([door, text]),
        };
        await prepare(place);
        await walk(place);
        if (!who.startsWith('an ')) {
          const sent = await scene.h.publish({ client, asset: `vid-${state}`, eventId: 'an-2' });
          if (sent.kind === 'queued') await scene.h.attempted(client, sent.id);
        }
        for (const { headers } of mine.received) place.look('the walker’s receiver', JSON.stringify(headers));
        const { signing } = await readSecrets(scene.h.db, box, client);
        const signs = new RegExp([first, ...signing].map((one) => one.replaceAll('+', '\\+')).join('|'));
        const doorOf = (secret: RegExp) => shown.find(([, text]) => secret.test(text))?.[0];
        const looked = Object.entries({ ...secrets, 'the signing secret': signs }) as [Secret, RegExp][];
        const seen = new Map(looked.map(([name, secret]) => [name, doorOf(secret)]));
        for (const [secret, door] of seen) assert.ok(!door || due.includes(secret), `${secret}, by ${door}`);
        // The walk finds what is there.
        const must = due.filter((one) => state === 'a URL is registered' && one !== 'another account');
        for (const secret of must) assert.ok(seen.get(secret), `${secret} was not found`);
      });

  it('keeps the notices of the platform from support: each operation that changes or sends something of a client', async () => {
    const { h } = scene;
    const { account_id } = await createAccount(h.db, { name: 'Platform', scopes: ['enrichments'] });
    await setNoticesUrl(h.db, createSecretBox(undefined), account_id, 'http://127.0.0.1:9/notices');
    const client = noticesClient('platform');
    const notice = arrivedEvent(client, 'endpoint', { body: '{}' });
    const id = notice.notificationId;
    await claimOnly(h.db, client, [{ ...notice, group: shared.withoutWorkflow }]);
    const site = { account_id, client, id } as Site;
    const names = ['client_token', 'notification_id'];
    const tried = operations.filter(
      ({ changes, role, input }) =>
        changes && role === 'support' && names.some((name) => name in input.shape),
    );
    assert.ok(tried.length > 8, String(tried.length));
    for (const operation of tried) {
      const given = { ...inputOf(operation, site), reason: 'a walk' };
      const { status, text } = await scene.call('support', 'POST', pathOf(operation), given);
      assert.equal(status, 403, `${pathOf(operation)}: ${text}`);
    }
    for (const [role, isOffered] of [
      ['support', false],
      ['admin', true],
    ] as const) {
      const visitor = await personAt(scene, role);
      for (const page of ['actions', `notifications/${id}`]) {
        const { html } = await visitor.get(`/desk/clients/${client}/${page}`);
        assert.equal(/action="\/desk\/do\//.test(html), isOffered, `${role}, ${page}`);
      }
    }
  });
});
