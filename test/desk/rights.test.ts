/**
 * Every door, as each who may come in: what is secret shows to those alone to whom it is due. Calls and operations are made from
 * their declarations, and pages and forms are found from page to page, so a new one is walked too.
 */
import assert from 'node:assert/strict';
import { noticesClient } from '../../src/ids.js';
import { operations } from '../../src/operator/operations.js';
import { createAccount } from '../../src/redis/records/accounts.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { changeRegistration, resetRegistration } from '../../src/redis/records/registrations.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { createSigningSecret, readSecrets } from '../../src/redis/records/secrets.js';
import { calls, requestOf } from '../api/everyCall.js';
import { signedIn, Visitor } from '../console/visitor.js';
import { registeredClient } from '../operator/cli.js';
import { type Receiver, startReceiver, until } from '../receiver.js';
import { openForSuite } from '../servers.js';
import { type Customer, callApi, newCustomer, newToken } from '../service.js';
import { type DeskScene, inputOf, newPersonLink, pathOf, type Site, startDesk } from './scene.js';

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
  /** The walker's own. */
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

/** Who walks, what is due to them whatever the state, and what they do. */
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
  'a session of a token for general use': [
    ['the whole URL'],
    (place) => walkConsole(place, place.tokens.general),
  ],
  'a session of a token with signing_secrets': [
    ['the signing secret', 'a header value', 'the whole URL'],
    (place) => walkConsole(place, place.tokens.full),
  ],
  'a session that may only look': [[], (place) => walkConsole(place, place.tokens.full, '?access=read')],
  'an operator who may look': [['another account'], (place) => walkOperations(place, 'look')],
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

/** Goes from page to page, and sends every form. */
async function walkPages(visitor: Visitor, { mine, owner, look }: Place, starts: string[], within: RegExp) {
  const [queue, known] = [[...starts], new Set(starts)];
  for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
    const { html } = await visitor.get(path);
    look(path, html);
    for (const [, href = ''] of html.matchAll(/href="([^"#]*)"/g)) {
      const to = href.replaceAll('&#38;', '&').replaceAll('&amp;', '&');
      if (!within.test(to) || known.has(to)) continue;
      known.add(to);
      queue.push(to);
    }
    for (const [, action = '', form = ''] of html.matchAll(
      /<form[^>]*method="post"[^>]*action="([^"]*)"[^>]*>(.*?)<\/form>/gs,
    )) {
      if (!action.startsWith('/console/sites/') && !action.startsWith('/console/notices')) continue;
      const hidden = [...form.matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)];
      const fields = Object.fromEntries(hidden.map(([, name = '', value = '']) => [name, value]));
      const chosen = {
        ...(form.includes('name="url"') && { url: mine.url }),
        ...(form.includes('<select') && { hours: '1' }),
      };
      await owner.forgetSends();
      look(`form ${action}`, (await visitor.post(action, { ...fields, ...chosen })).html);
    }
  }
}

const ofConsole = /^\/console(?!\/(assets|open))/;

async function walkConsole(place: Place, token: string, query = ''): Promise<void> {
  await walkPages(await signedIn(place.scene.h, token, query), place, ['/console'], ofConsole);
}

async function walkOperations(place: Place, role: 'look' | 'support' | 'admin'): Promise<void> {
  const { scene, site, mine, look } = place;
  const visitor = new Visitor(scene.url);
  await visitor.post('/desk/open', { link: await newPersonLink(scene, role, role) });
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
    await walkPages(session, place, ['/console'], ofConsole);
  }
  for (const operation of operations) {
    const input = { ...inputOf(operation, site), ...('url' in operation.input.shape && { url: mine.url }) };
    const query = new URLSearchParams(input as Record<string, string>);
    const { text } = operation.changes
      ? await scene.call(role, 'POST', pathOf(operation), { ...input, reason: 'a walk' })
      : await scene.call(role, 'GET', `${pathOf(operation)}?${query}`);
    look(pathOf(operation), text);
  }
}

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

  for (const [state, prepare] of Object.entries(states))
    for (const [who, [due, walk]] of Object.entries(walkers))
      it(`shows to ${who} only where it is due, when ${state}`, async () => {
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
          if (sent.kind === 'queued')
            await until(
              'it was attempted',
              async () => (await scene.h.notification(client, sent.id))?.attempts.length,
            );
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
    const site = { account_id, client } as Site;
    const tried = operations.filter(
      ({ changes, role, input }) => changes && role === 'support' && 'client_token' in input.shape,
    );
    assert.ok(tried.length > 6, String(tried.length));
    for (const operation of tried) {
      const given = { ...inputOf(operation, site), reason: 'a walk' };
      const { status, text } = await scene.call('support', 'POST', pathOf(operation), given);
      assert.equal(status, 403, `${pathOf(operation)}: ${text}`);
    }
  });
});
