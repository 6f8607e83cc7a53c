import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import { change, listFormer } from '../../src/acts/registrations.js';
import type { Subject } from '../../src/acts/subjects.js';
import { operatorOf } from '../../src/desk/calls.js';
import { nameOf, type Operation } from '../../src/operator/operation.js';
import { operations } from '../../src/operator/operations.js';
import { ignore } from '../../src/redis/connection/unavailable.js';
import { listNotifications } from '../../src/redis/notifications/notificationPages.js';
import { createAccount, getAccount, setScopes } from '../../src/redis/records/accounts.js';
import { listChanges } from '../../src/redis/records/audit.js';
import { createClient, getClient, setClient } from '../../src/redis/records/clients.js';
import { countEndpoints } from '../../src/redis/records/counts.js';
import { deleteClient } from '../../src/redis/records/deletion.js';
import { getEndpoint, resumeEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { setNoticesUrl } from '../../src/redis/records/notices.js';
import { isAllowed, type Role, roles } from '../../src/redis/records/operatorAccess.js';
import { createSecretBox } from '../../src/redis/records/secretBox.js';
import { sealFormer } from '../../src/redis/records/secrets.js';
import { askForUrl } from '../../src/redis/records/urlRequests.js';
import { clientTokenKey, eventIdKey, workflowIds } from '../../src/temporal/workflowIds.js';
import { assertGeneratable } from '../api/reference/madeClients.js';
import { formTokenIn, type Page, Visitor } from '../console/visitor.js';
import { itOfFamily } from '../families.js';
import { startOwnRedis } from '../ownRedis.js';
import { startProxy } from '../proxy.js';
import { portOf, startReceiver, until } from '../receiver.js';
import { opened, openForSuite } from '../servers.js';
import { inputOf, newPersonLink, newSite, pathOf, personAt, type Site, startDesk } from './scene.js';

/** Of operations that this installation gives no reason to carry out. */
const refusals: Record<string, string> = {
  'token revoke': 'There is no token nobody.',
  'store accept-empty': 'The store has not lost its data.',
};

const secretUrl = 'http://127.0.0.1:9/hook?key=url-secret';

describe('operations of operators', () => {
  const scene = openForSuite(() => startDesk());
  const visitors = {} as Record<Role, Visitor>;
  before(async () => {
    for (const role of roles) visitors[role] = await personAt(scene, role);
  });

  const ada = (role: Role = 'admin') =>
    operatorOf(scene.h.apiDeps, { role, who: 'Ada (test)', warnings: [] }, 'a test');

  /** A site whose deliveries are paused, so that its notification stays, and whose URL was changed, and whose publisher asks for another. */
  async function pausedSite(): Promise<Site> {
    const site = await newSite(scene, `${secretUrl}-1`);
    const { client: clientToken, account_id: accountId } = site;
    await change(ada(), { client: { clientToken, accountId } as Subject, url: secretUrl });
    await setPaused(scene.h.db, site.client, true);
    const asked = { url: `${secretUrl}&asked`, reason: 'we have moved', by: 'token 9f86d081884c' };
    await askForUrl(scene.h.db, scene.h.apiDeps.secretBox, site.client, asked);
    return site;
  }

  /** The words of the command, made from the members of the input. */
  function wordsOf(operation: Operation, input: Record<string, unknown>): string[] {
    const args = (operation.command.match(/[<[]/g) ?? []).length;
    const members = Object.keys(operation.input.shape);
    const options = Object.entries(input).filter(([member]) => members.indexOf(member) >= args);
    return [
      ...nameOf(operation).split(' '),
      ...members
        .slice(0, args)
        .flatMap((member) => (input[member] === undefined ? [] : [String(input[member])])),
      ...options.flatMap(([member, value]) => {
        const option = `--${member.replaceAll('_', '-')}`;
        return value === true ? [option] : [value].flat().flatMap((one) => [option, String(one)]);
      }),
    ];
  }

  function called(operation: Operation, role: Role, input: Record<string, unknown>) {
    if (operation.changes) return scene.call(role, 'POST', pathOf(operation), { ...input, reason: 'a test' });
    const query = new URLSearchParams(input as Record<string, string>);
    return scene.call(role, 'GET', `${pathOf(operation)}?${query}`);
  }

  /** Makes answers about different sites, at different times, comparable. */
  function comparable(value: unknown, { account_id, client_id, client, id }: Site): unknown {
    let text = JSON.stringify(value);
    for (const [name, one] of Object.entries({ client, id, account_id, client_id }))
      text = text.replaceAll(one, name);
    // Under load an event may have the workflow of a group.
    const changing =
      /^(client_secret|workflow_id|url|token|found|who|milliseconds|calls(_failed)?|reencrypted|unchanged)$/;
    const ofCalls = ['request_id', 'token_fingerprint', 'why'];
    return JSON.parse(
      text
        .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'time')
        .replaceAll(/(acc|cid|evt|msg|req|url)_[\w-]+/g, '$1')
        .replaceAll(/Media \d+/g, 'Media'),
      (name, one) => (ofCalls.includes(name) ? undefined : changing.test(name) ? '…' : one),
    );
  }

  const itOne = itOfFamily(4);
  for (const operation of operations) {
    const name = nameOf(operation);

    itOne(`${name}: the command, the command over HTTP and the call answer the same`, async () => {
      const sites = await Promise.all([pausedSite(), pausedSite(), pausedSite()]);
      const [here, there, asked] = sites.map((site) => inputOf(operation, site)) as [object, object, object];
      const ran = await scene.cli.run([...wordsOf(operation, { ...here }), '--json']);
      const ranThere = await scene.there('admin', [...wordsOf(operation, { ...there }), '--json']);
      const call = await called(operation, 'admin', { ...asked });
      if (refusals[name] !== undefined) {
        assert.deepEqual(ran, { status: 1, stdout: '', stderr: `${refusals[name]}\n` });
        assert.deepEqual([ranThere, call.status, call.body.code], [ran, 409, 'refused']);
        return;
      }
      assert.deepEqual([ran.status, ranThere.status], [ran.status, ran.status], ranThere.stderr);
      const answer = operation.list === undefined ? call.body : call.body[operation.list];
      const [first, second, third] = [JSON.parse(ran.stdout), JSON.parse(ranThere.stdout), answer].map(
        (value, i) => comparable(value, sites[i] as Site),
      );
      // Lists of everything also have what the tests before this one made.
      if (['account list', 'token list'].includes(name))
        return assert.ok((second as []).length >= (first as []).length);
      if (name === 'status') return assert.equal((second as { verdict: string }).verdict, 'us');
      assert.deepEqual(second, first);
      assert.deepEqual(third, first);
      const schema = operation.list === undefined ? operation.answers : operation.answers.array();
      assert.equal(schema.safeParse(answer).error, undefined);
    });

    // What each role is shown: rights.test.ts.
    const lesser = roles.filter((role) => !isAllowed(role, operation.role));
    if (lesser.length > 0)
      itOne(`${name}: is refused by every door to a role that may not do it`, async () => {
        const input = inputOf(operation, await pausedSite());
        for (const role of lesser) {
          const { status, body } = await called(operation, role, input);
          const ran = await scene.there(role, wordsOf(operation, input));
          const says = `This needs the role ${operation.role}; the token ${role} has the role ${role}`;
          assert.deepEqual([status, body.code, body.msg], [403, 'insufficient_role', says]);
          assert.deepEqual(ran, { status: 1, stdout: '', stderr: `${says}.\n` });
        }
      });

    itOne(`${name}: has a page, with a form for who may, which carries it out`, async () => {
      const site = await pausedSite();
      const input = inputOf(operation, site);
      const path = `/desk/do/${name.replaceAll(' ', '/')}`;
      const fields = Object.fromEntries(
        Object.entries(input).map(([member, value]) => [member, [value].flat().join(' ')]),
      );
      for (const role of roles) {
        const page = await visitors[role].get(
          `${path}?${operation.changes ? '' : new URLSearchParams(fields)}`,
        );
        assert.equal(page.status, isAllowed(role, operation.role) ? 200 : 403);
      }
      if (!operation.changes) return;
      const form = await visitors.admin.get(path);
      const sent = { ...fields, typed: Object.values(fields).at(-1) ?? '', reason: 'a test' };
      const done = await visitors.admin.submit(form, path, sent);
      const shown = await visitors.look.post(path, sent);
      const due = refusals[name] === undefined ? 200 : 409;
      assert.deepEqual([done.status, shown.status], [due, 403], done.html);
    });
  }

  for (const verb of ['test', 'check']) {
    it(`registration ${verb}: its answer has a tone, and command, command over HTTP and desk use it`, async () => {
      const receiver = await startReceiver();
      const { client } = await newSite(scene, receiver.url);
      const path = `/desk/do/registration/${verb}`;
      const page = await visitors.support.get(path);
      for (const [answer, status, tone] of [
        [200, verb === 'test' ? 0 : 1, verb === 'test' ? 'good' : 'bad'],
        [500, 1, 'bad'],
      ] as const) {
        receiver.answer = () => answer;
        const ran = await scene.cli.run(['registration', verb, client]);
        const ranThere = await scene.there('support', ['registration', verb, client]);
        assert.deepEqual([ran.status, ranThere.status], [status, status], ran.stderr);
        assert.equal(ranThere.stderr.split('\n').at(-2), ran.stderr.split('\n').at(-2));
        const done = await visitors.support.submit(page, path, { client_token: client, reason: 'a test' });
        assert.match(done.html, new RegExp(`id="result" class="notice ${tone}"`));
      }
    });
  }

  describe('that send again', () => {
    // A worker of the suite's scene would first run the workflows of every site before.
    const own = openForSuite(() => startDesk());
    before(() => own.h.startWorker());
    const delivered = async () => {
      const receiver = await startReceiver();
      const { client, id } = await newSite(own, receiver.url);
      await own.h.delivered(client, id);
      return { receiver, client };
    };

    it('count first at the desk, and then send in the span of time that was counted', async () => {
      const visitor = await personAt(own, 'support');
      const { receiver, client } = await delivered();
      const path = '/desk/do/notification/replay';
      const asked = { client_token: client, since: '1d', reason: 'a restore' };
      const counted = await visitor.submit(await visitor.get(path), path, asked);
      assert.match(
        counted.html,
        /1 would be owed again[\s\S]*Delivered from \d{4}-.*Z to \d{4}-.*Z[\s\S]*>Replay 1</,
      );
      assert.equal(receiver.received.length, 1);
      const done = await visitor.submit(counted, path);
      assert.match(done.html, /1 are owed again/);
      await until('it came again', () => receiver.received.length === 2);
      assert.match((await visitor.submit(counted, path)).html, /notice warn[\s\S]*0 are owed again/);
      const [entry] = (await own.cli.json('audit', '--of', client, '--what', 'replay')).slice(-1);
      assert.match(entry.after.since, /Z$/);
      const none = await visitor.submit(await visitor.get(path), path, {
        ...asked,
        until: '12h',
      });
      assert.match(none.html, /0 would be owed again: no asset has/);
      assert.doesNotMatch(none.html, />Replay /);
    });

    it('take a relative span that is given again within 10 minutes for the same, leave out what was owed again in them, and say why nothing is sent', async () => {
      const { receiver, client } = await delivered();
      const replay = async (...more: string[]) => {
        const { stdout, stderr } = await own.cli.run([
          ...['notification', 'replay', client, '--since', '1d', ...more, '--json'],
        ]);
        const { since, count, left_out: left, none_because: why } = JSON.parse(stdout);
        return { since, isSaid: /its span is taken, since/.test(stderr), shown: [count, left, why] };
      };
      const arrived = (times: number) => until('it comes', () => receiver.received.length >= times);
      const first = await replay();
      assert.deepEqual([first.shown, first.isSaid], [[1, 0, undefined], false]);
      await arrived(2);
      await own.h.noneOwed(client);
      const same = await replay();
      assert.deepEqual(
        [same.shown, same.since, same.isSaid],
        [[0, 0, 'already_replayed'], first.since, true],
      );
      const other = await replay('--until', '0s');
      assert.deepEqual([other.shown, other.isSaid], [[0, 1, 'owed_again_lately'], false]);
      const anew = await replay('--again');
      assert.deepEqual([anew.shown, anew.isSaid], [[1, 0, undefined], false]);
      assert.ok(anew.since > first.since);
      await arrived(3);
      await own.h.noneOwed(client);
      const entries = async () => (await own.cli.json('audit', '--of', client, '--what', 'replay')).length;
      const before = await entries();
      const stop = ['notification', 'replay', client, '--since', '2d', '--stop', '--dry-run'];
      assert.match((await own.cli.run(stop)).stderr, /no replay of this time runs/);
      assert.equal(await entries(), before, 'what is refused is not recorded as made');
    });
  });

  it('say of a form that was refused, or came without its session, how it may be sent again, with all that was written', async () => {
    const { client } = await pausedSite();
    const visitor = new Visitor(scene.url);
    const signIn = async () =>
      visitor.post('/desk/open', { link: await newPersonLink(scene, 'support', 'Ada') });
    await signIn();
    const path = '/desk/do/client/set';
    const page = await visitor.get(`/desk/clients/${client}/actions`);
    const wrong = await visitor.submit(page, path, { max_in_flight: '-1', reason: 'ticket 1' });
    assert.match(wrong.html, /Attempts in flight: Give a whole number.*value="-1"[^>]* aria-invalid="true"/s);
    const { cookie } = visitor;
    visitor.cookie = '';
    const written = { max_in_flight: '3', reason: 'ticket “4711”' };
    const ended = await visitor.submit(page, path, written);
    assert.equal(ended.status, 401);
    assert.match(ended.html, /Your session has ended, and nothing was done[\s\S]*Sign in, in another tab/);
    assert.match(ended.html, /<dt>max in flight<\/dt><dd>3<\/dd>/);
    assert.match(ended.html, /name="reason" value="ticket “4711”"/);
    await signIn();
    const { reason } = written;
    const begun = await visitor.submit(ended, path, { reason });
    assert.deepEqual([begun.status, begun.html.includes('value="ticket “4711”"')], [403, true]);
    const done = await visitor.submit(begun, path, { reason });
    assert.equal(done.status, 200, done.html);
    assert.match(done.html, /<dd>3<\/dd>/);
    const elsewhere = await new Visitor(scene.url).post(path, written, {
      origin: 'https://other.example.com',
    });
    assert.deepEqual([elsewhere.status, elsewhere.html.includes('4711')], [403, false]);
    assert.notEqual(visitor.cookie, cookie);
  });

  for (const mistake of ['change', 'reset'] as const)
    it(`take back a ${mistake} of a URL: not over a URL that was registered since, through the address guard, told to the account`, async () => {
      const [receiver, elsewhere] = await Promise.all([startReceiver(), startReceiver()]);
      const { client, account_id } = await newSite(scene, `${receiver.url}?key=url-secret`);
      const { db, apiDeps } = scene.h;
      await setNoticesUrl(db, apiDeps.secretBox, account_id, 'http://127.0.0.1:9/notices');
      const does = async (role: Role, what: string, more = {}) =>
        scene.call(role, 'POST', `/operator/registration/${what}`, { client_token: client, ...more });
      assert.equal((await does('support', 'restore')).status, 409);
      await does('support', mistake, mistake === 'change' && { url: elsewhere.url });
      const listed = async (role: Role) =>
        (await scene.call(role, 'GET', `/operator/registration/former?client_token=${client}`)).body
          .former_urls;
      const [kept] = await listed('support');
      assert.deepEqual(
        [kept.url, (await listed('look'))[0].url],
        [`${receiver.url}?key=url-secret`, new URL(receiver.url).origin],
      );
      const [entry] = (await scene.cli.json('audit', '--of', client, '--what', mistake)).slice(-1);
      assert.deepEqual(entry.before, { url: new URL(receiver.url).origin, former: kept.former });
      const raw = await db.redis.hgetall(db.client(client).signingSecrets);
      assert.ok(!JSON.stringify(raw).includes(receiver.url));
      assert.equal((await does('look', 'restore')).status, 403);
      const { ALLOWED_TARGET_CIDRS } = apiDeps.config;
      apiDeps.config.ALLOWED_TARGET_CIDRS = [];
      assert.equal((await does('support', 'restore')).body.code, 'url_not_public');
      apiDeps.config.ALLOWED_TARGET_CIDRS = ALLOWED_TARGET_CIDRS;
      const done = await does('support', 'restore', { former: kept.former });
      assert.deepEqual([done.status, done.body.url], [200, `${receiver.url}?key=url-secret`], done.text);
      const notices = db.client(`notices:${account_id}`);
      const { notifications } = await listNotifications(db, `notices:${account_id}`, { limit: 9 });
      const bodies = notifications.map(({ notificationId }) =>
        db.redis.hget(notices.notification(notificationId), 'body'),
      );
      const [last = ''] = await Promise.all(bodies);
      const { event, reason } = JSON.parse(last ?? '');
      assert.deepEqual([event, reason], ['registration.changed', 'an operator has put a former URL back']);
      assert.doesNotMatch(JSON.stringify(await Promise.all(bodies)), /url-secret/);
      // What was put back is no former URL, and what it replaced is one.
      assert.deepEqual(
        (await listed('support')).map(({ url }: { url: string }) => url),
        mistake === 'change' ? [elsewhere.url] : [],
      );
      await does('support', 'reset');
      await scene.h.registerUrl(client, elsewhere.url);
      const { body } = await does('support', 'restore');
      assert.match(body.msg, /has a URL that its publisher has registered since/);
    });

  it('keep a former URL for 90 days, ten at most, none without SECRETS_KEY, and none of a deleted client', async () => {
    const { client, account_id } = await pausedSite();
    const subject = { clientToken: client, accountId: account_id } as Subject;
    const { db, apiDeps } = scene.h;
    const kept = async () => (await listFormer(ada(), { client: subject })).length;
    for (let i = 0; i < 10; i++) await change(ada(), { client: subject, url: `${secretUrl}&n=${i}` });
    assert.equal(await kept(), 10);
    const { signingSecrets, endpoint } = db.client(client);
    const fields = (await db.redis.hkeys(signingSecrets)).filter((name) => name.startsWith('former:'));
    for (const field of fields) {
      const sealed = (await db.redis.hget(signingSecrets, field)) ?? '';
      await db.redis.hdel(signingSecrets, field);
      await db.redis.hset(signingSecrets, field.replace(/\d+/, '1000'), sealed);
    }
    assert.equal(await kept(), 0);
    await db.redis.hset(endpoint, 'former_end', 1000);
    await countEndpoints(db, { broken: ignore, notice: ignore });
    assert.deepEqual(
      (await db.redis.hkeys(signingSecrets)).filter((name) => name.startsWith('former:')),
      [],
    );
    const box = apiDeps.secretBox;
    assert.equal(sealFormer(db, createSecretBox(undefined), client, secretUrl), undefined);
    assert.ok(sealFormer(db, box, client, secretUrl));
    await change(ada(), { client: subject, url: secretUrl });
    await deleteClient(db, client);
    assert.equal(await db.redis.exists(signingSecrets), 0);
  });

  it('hold and release a whole customer: new sites too, and neither a publisher’s resume nor the end of the hold ends another pause', async () => {
    const { client, account_id } = await newSite(scene, secretUrl);
    const { account_id: _, client: alone } = { ...(await newSite(scene, secretUrl)), account_id };
    const { db } = scene.h;
    await db.redis.hset(db.client(alone).client, 'account_id', account_id);
    await db.redis.sadd(db.global.accountClients(account_id), alone);
    await setPaused(db, alone, true);
    const does = (what: string) => scene.call('support', 'POST', `/operator/account/${what}`, { account_id });
    assert.deepEqual((await does('pause')).body, { account_id, disabled: false, paused: true, clients: 2 });
    const later = `${client}-later`;
    await createClient(db, { accountId: account_id, name: 'Later', clientToken: later });
    const page = async () =>
      (await visitors.look.get(`/desk/clients/${client}`)).html.replaceAll(/<[^>]*>/g, '');
    assert.match(
      await page(),
      /because all deliveries of the account are paused\. .*Resume the customer to end/s,
    );
    await resumeEndpoint(db, client, 'publisher');
    const states = async () =>
      Promise.all([client, alone, later].map(async (one) => (await getEndpoint(db, one)).state));
    assert.deepEqual(await states(), ['paused', 'paused', 'paused']);
    assert.equal((await does('resume')).body.paused, false);
    assert.deepEqual(await states(), ['active', 'paused', 'active']);
  });

  it('name customers and sites wherever they are shown, as links', async () => {
    const { client, account_id } = await pausedSite();
    const account = await getAccount(scene.h.db, account_id);
    const toCustomer = `<a href="/desk/accounts/${account_id}">${account?.name}</a>`;
    const toSite = `<a href="/desk/clients/${client}">Site of ${client}</a>`;
    for (const [path, ...links] of [
      [`/desk/accounts?name=${account?.name}`, toCustomer],
      [`/desk/clients/${client}`, `‹ ${account?.name}`],
      [`/desk/do/notification/list?client=${client}`, toSite],
      [`/desk/do/client/list?account=${account_id}`, toSite, toCustomer],
      [`/desk/do/audit?of=${client}`, toSite],
    ] as const) {
      const { html } = await visitors.look.get(path);
      for (const link of links) assert.ok(html.includes(link), `${path}: ${link}`);
    }
    const many = Array.from({ length: 1001 }, (_, i) => `${client}-${i}`);
    const { redis, global } = scene.h.db;
    await redis.sadd(global.accountClients(account_id), ...many);
    const made = { account_id, name: 'One of many' };
    await Promise.all(many.map((token) => redis.hset(scene.h.db.client(token).client, made)));
    const counts = (await visitors.look.get(`/desk/accounts?name=${account?.name}`)).html.match(
      /[\d,]+ or more/g,
    );
    assert.ok((counts?.length ?? 0) >= 4, `sites, states, waiting, failed: ${counts}`);
    const { html } = await visitors.look.get('/desk/accounts?name=nobody-of-this-name');
    assert.match(html, /There are no such customers/);
  });

  it('are described at /operator/openapi.json, each with its role, and nothing that is named there is missing', async () => {
    const text = await (await fetch(`${scene.url}/operator/openapi.json`)).text();
    const { paths, components } = JSON.parse(text);
    for (const operation of operations) {
      const call = paths[pathOf(operation)][operation.changes ? 'post' : 'get'];
      const { description, responses, parameters, requestBody } = call;
      const members = requestBody?.content['application/json'].schema.properties ?? {};
      for (const { name, schema } of parameters) members[name] = schema;
      for (const id of ['client_token', 'notification_id'])
        assert.ok(members[id]?.pattern ?? !(id in members), `${pathOf(operation)}: ${id}`);
      assert.match(description, new RegExp(`Role: \`${operation.role}\``));
      assert.ok(responses[200].content['application/json'].schema);
    }
    const ids = workflowIds('notifications');
    const notification = 'msg_3q2-7wABAgMEBQYHCAkKCw';
    for (const id of [ids.enrichment('SITE0042', notification), ids.catchUp('SITE0042')])
      assert.ok(text.includes(`["${id}"]`), id);
    for (const [, kind = '', name = ''] of text.matchAll(/#\/components\/(\w+)\/(\w+)/g))
      assert.ok(components[kind][name], name);
    assertGeneratable(JSON.parse(text));
  });

  it('refuse a wrong call like the API, before anything is done', async () => {
    const of = { client_token: (await pausedSite()).client };
    const [pause, set] = ['/operator/registration/pause', '/operator/client/set'];
    const forged = ['NaN', '-1', '1.5'].map((score) => {
      const cursor = Buffer.from(`f.${score}.dmlk.*`).toString('base64url');
      return [
        'GET',
        `/operator/notification/list?state=failed&cursor=${cursor}`,
        undefined,
        400,
        /cursor/,
      ] as const;
    });
    for (const [method, path, body, status, says] of [
      ['POST', '/operator/desk', null, 400, 'body: must be an object'],
      ['POST', pause, {}, 400, 'client_token: is missing'],
      ['POST', pause, { ...of, more: 1 }, 400, 'body: the member "more" is unknown'],
      ['POST', pause, { ...of, reason: 'a\nb' }, 400, /reason: A reason is one line/],
      ['POST', set, of, 400, /Give max_in_flight, max_per_second or quiet_seconds/],
      ['POST', pause, { ...of, limit: 1 }, 400, 'body: the member "limit" is unknown'],
      ['POST', set, { ...of, max_per_second: 0 }, 400, /: Give a whole number of at least 1, or "default"$/],
      ['GET', '/operator/client/list?account=acc_x', undefined, 404, 'There is no account acc_x'],
      ['GET', '/operator/client/list?cursor=zzzz', undefined, 400, /cursor/],
      ['POST', '/operator/registration/change', { ...of, url: 'ftp://x' }, 400, /./],
      ['POST', pause, { client_token: 'nobody' }, 404, 'There is no client nobody'],
      ['GET', pause, undefined, 405, /not allowed/],
      ['GET', '/operator/client/list?nmae=x', undefined, 400, 'The parameter nmae is not known'],
      ['GET', '/operator/client/list?limit=0', undefined, 400, /limit: must be a whole number from 1 to 200/],
      ['GET', '/operator/account/list?cursor=eA', undefined, 400, /cursor/],
      ['GET', '/operator/nothing', undefined, 404, /nothing/],
      ...forged,
    ] as const) {
      const answer = await scene.call('admin', method, path, body);
      assert.equal(answer.status, status, `${path} ${answer.text}`);
      assert.match(answer.body.msg, says instanceof RegExp ? says : new RegExp(`^${says}$`));
    }
    for (const [authorization, says] of [
      ['', /is missing/],
      ['Bearer: admin.x', /has the character :/],
      ['Bearer admin.x', /no longer valid/],
      [`Bearer ${scene.tokens.admin.slice(0, -1)}`, /no longer valid/],
    ] as const) {
      const { status, body, headers } = await scene.call('admin', 'GET', '/operator/status', undefined, {
        authorization,
      });
      assert.deepEqual([status, body.code], [401, 'invalid_token']);
      assert.match(body.msg, says);
      assert.match(headers.get('www-authenticate') ?? '', /^Bearer/);
    }
    assert.equal((await fetch(`${scene.h.url}/operator/status`)).status, 404, "not on the callers' port");
  });

  it('are refused by commands with the same words on the stores and over HTTP', async () => {
    const { account_id, client, id } = await pausedSite();
    await scene.cli.json('notification', 'cancel', id);
    await scene.cli.json('account', 'disable', account_id);
    const page = await visitors.look.get(`/desk/clients/${client}`);
    assert.match(
      page.html,
      /because the account is disabled\. No video waits\..*Only an admin can enable the account\./s,
    );
    assert.match(
      (await scene.cli.run(['explain', client, 'vid-1'])).stdout,
      /^.* Its account is disabled or paused\.\n/,
    );
    for (const args of [
      ['console', client],
      ['notification', 'cancel', id],
      ['client', 'create', '--account', account_id, '--name', 'S', '--token', client],
      ['registration', 'change', client, '--url', 'ftp://x'],
    ]) {
      const ran = await scene.cli.run(args);
      assert.match(ran.stderr, /^(msg_|[A-Z]).*[^.]\.\n$/);
      assert.deepEqual(await scene.there('admin', args), ran);
    }
    const made = await scene.cli.json('client', 'create', '--account', account_id, '--name', 'Sealed');
    const { config } = scene.h.apiDeps;
    const { SECRETS_KEY } = config;
    // The installation notes its key.
    await scene.cli.json('secrets', 'reencrypt');
    config.SECRETS_KEY = [{ id: 'k9', key: Buffer.alloc(32) }];
    const test = ['registration', 'test', made.client_token, '--url', 'http://127.0.0.1:9/'];
    const { stderr } = await scene.there('admin', test);
    const pages = ['/desk', `/desk/clients/${client}`, `/desk/clients/${client}/actions`];
    const shown = await Promise.all(pages.map((path) => visitors.support.get(path)));
    config.SECRETS_KEY = SECRETS_KEY;
    const lacks = /SECRETS_KEY lacks the key "k1" of this installation: /;
    assert.match(stderr, new RegExp(`^${lacks.source}.*\\.\n$`));
    for (const { html: said } of shown) {
      assert.match(said.replaceAll('&#34;', '"'), lacks);
      assert.doesNotMatch(said, /No former URL is kept/);
    }
  });

  it('say over HTTP that the audit names the token, and why a door does not answer', async () => {
    const { client } = await pausedSite();
    const args = ['registration', 'pause', client, '--as', 'Ada', '--reason', ' why '];
    const warned = '--as does not hold over HTTP: the audit has the name of the token.\n';
    assert.equal((await scene.there('support', args)).stderr, warned);
    await scene.cli.run(args);
    const { body } = await scene.call('look', 'GET', `/operator/audit?of=${client}&who=%20(`);
    const whys = body.entries.map(({ why }: { why?: string }) => why);
    assert.deepEqual(whys, ['a test', 'why', 'why']);
    const env = { OPERATOR_URL: scene.h.url, OPERATOR_TOKEN: `\n${scene.tokens.look}\n` };
    const callers = await scene.cli.run(['status'], { env });
    assert.equal(callers.stderr, `There is no operators' door at ${scene.h.url}, or an older one.\n`);
    const secure = { OPERATOR_URL: scene.url.replace('http', 'https'), OPERATOR_TOKEN: 'look.x' };
    assert.match((await scene.cli.run(['status'], { env: secure })).stderr, /\(does not speak TLS\)\.$/m);
    const unknown = { OPERATOR_URL: scene.url, OPERATOR_TOKEN: 'look.x' };
    assert.match((await scene.cli.run(['status'], { env: unknown })).stderr, /^OPERATOR_TOKEN: The access/);
  });

  const answersBefore: Record<string, [answer: (res: ServerResponse) => unknown, says: string]> = {
    'a redirect': [
      (res) => res.writeHead(301, { location: '/' }).end(),
      'does not answer at URL (unexpected redirect).',
    ],
    'half an answer': [
      (res) => res.writeHead(200, { 'content-length': 9 }).write('{', () => res.destroy()),
      'does not answer at URL (other side closed).',
    ],
    'a page of its own': [(res) => res.writeHead(502).end('<p>Bad gateway'), 'answered 502.'],
    'a sign-in': [(res) => res.end('<p>Sign in'), 'at URL, or an older one.'],
  };
  for (const [what, [answer, says]] of Object.entries(answersBefore))
    it(`say what a proxy before the door does, and of a change that it may have taken effect: ${what}`, async () => {
      const proxy = createServer((_, res) => void answer(res));
      const url = `http://127.0.0.1:${await portOf(proxy)}`;
      const env = { OPERATOR_URL: `\n${url} `, OPERATOR_TOKEN: scene.tokens.admin };
      for (const [args, may] of [
        [['status'], ''],
        [['token', 'revoke', 'x'], ' The command may or may not have taken effect.'],
      ] as const) {
        const { status, stdout, stderr } = await scene.cli.run(args, { env });
        assert.deepEqual([status, stdout], [1, '']);
        assert.ok(stderr.endsWith(`${says.replace('URL', url)}${may}\n`), stderr);
      }
      proxy.close();
    });

  it('are recorded when they look further back than there are dates', async () => {
    const { client } = await pausedSite();
    await scene.cli.json('notification', 'recover', client, '--since', '9999999999d');
    const { what, after } = (await scene.cli.json('audit', '--of', client)).at(-1);
    assert.deepEqual([what, after.since], ['notification recover', '1970-01-01T00:00:00.000Z']);
  });

  it('list page by page, in an order in which nothing is left out', async () => {
    for (const [list, path] of Object.entries({
      accounts: '/operator/account/list?',
      clients: '/operator/client/list?',
      entries: '/operator/audit?',
      notifications: '/operator/notification/list?',
    })) {
      const { body: whole } = await scene.call('look', 'GET', `${path}limit=200`);
      const paged: unknown[] = [];
      for (let cursor = ''; ; ) {
        const { body } = await scene.call('look', 'GET', `${path}limit=47${cursor && `&cursor=${cursor}`}`);
        paged.push(...body[list]);
        if (!body.has_more) break;
        cursor = body.next_cursor;
      }
      const idOf = (one: unknown) => {
        const { next_attempt_at: _, waiting_reason: __, ...same } = one as Record<string, unknown>;
        return same;
      };
      assert.deepEqual(paged.slice(0, whole[list].length).map(idOf), whole[list].map(idOf), path);
      assert.equal(new Set(paged.map((one) => JSON.stringify(idOf(one)))).size, paged.length, path);
    }
    const { html } = await visitors.look.get('/desk/do/client/list?cursor=zzzz');
    assert.match(html, /<p>There are no further entries\.<\/p>/);
    assert.match((await visitors.look.get('/desk/do/notification/list?limit=3')).html, /The newest 3 as CSV/);
    const change = (await visitors.admin.get('/desk/do/registration/change?client_token=X1')).html;
    assert.match(change, /name="client_token" value="X1"/, 'the form shows what it is about');
  });

  it('find what an operator pastes: a URL, a workflow of Temporal, an asset whose id ends like a client token', async () => {
    const receiver = await startReceiver();
    const { client, id } = await newSite(scene, `${receiver.url}/hook?key=x`);
    const asset = `shows/${client}`;
    await scene.h.publish({ client, asset });
    const find = async (q: string) => visitors.support.get(`/desk/find?${new URLSearchParams({ q })}`);
    const inUi = (workflow: string) =>
      `http://127.0.0.1:8233/namespaces/default/workflows/${encodeURIComponent(workflow)}`;
    for (const [asked, path] of [
      [`${receiver.url}/another`, `/desk/clients/${client}`],
      [inUi(`q/catch-up/${client}`), `/desk/clients/${client}`],
      [`https://hooks.example.com/console/sites/${client}/asset?platform_id=x`, `/desk/clients/${client}`],
      [` q/enrichment/${client}/${id} `, `/desk/clients/${client}/notifications/${id}`],
      [`${inUi(`q/enrichment/${client}/${id}`)}/run/history`, `/desk/clients/${client}/notifications/${id}`],
    ])
      assert.equal((await find(asked as string)).headers.get('location'), path, asked);
    await until('Temporal lists the asset', async () => (await find(asset)).status === 303);
    const { headers } = await find(asset);
    assert.equal(
      headers.get('location'),
      `/desk/clients/${client}/asset?platform_id=${encodeURIComponent(asset)}`,
    );
    assert.match((await find('nothing')).html, /whose workflow Temporal no longer keeps/);
    const { options } = scene.h.temporal.workflow;
    const { namespace } = options;
    Object.assign(options, { namespace: 'of-nobody' });
    const { html } = await find('nothing');
    Object.assign(options, { namespace });
    assert.match(html, /Temporal has no such namespace\. So no event or asset is found/);
    const { account_id } = await createAccount(scene.h.db, { name: 'Cr\u00e8me Odd' });
    assert.equal((await find('cre\u0300me odd')).headers.get('location'), `/desk/accounts/${account_id}`);
    const pageOfAsset = (id: string) => `/desk/clients/${client}/asset?platform_id=${encodeURIComponent(id)}`;
    const odd = ['caf\u00e9 "1"', "it's", ' blank ', '%2e', '..', 'a/', 'caf\u00e9', '“vid-q”'];
    for (const id of odd) await scene.h.publish({ client, asset: id });
    const last = await scene.h.publish({ client, asset: 'vid-z', eventId: 'an-z' });
    await until('Temporal lists the event', async () => (await find('an-z')).status === 303);
    for (const id of odd) assert.equal((await find(id)).headers.get('location'), pageOfAsset(id), id);
    const called = `https://hooks.example.com/push_notifications?client_token=${client}`;
    for (const [asked, path] of [
      ...[
        '"vid-z"',
        '“vid-z”',
        '\ufeffvid-z\u200b',
        '\tvid-z,',
        '<vid-z>',
        '{"platform_id": "vid-z"}',
        "'vid-z'.",
      ].map((text) => [text, pageOfAsset('vid-z')]),
      ['https://hooks.example.com/assets/vid%2Dz', pageOfAsset('vid-z')],
      ['cafe\u0301', pageOfAsset('caf\u00e9')],
      ['"event_id":"an-z",', `/desk/clients/${client}/notifications/${last.id}`],
      ...[`"${client}",`, `webhook-client-token: ${client}`, called].map((text) => [
        text,
        `/desk/clients/${client}`,
      ]),
      [`"${receiver.url}",`, `/desk/clients/${client}`],
      [receiver.url.slice('http://'.length), `/desk/clients/${client}`],
    ])
      assert.equal((await find(asked as string)).headers.get('location'), path, asked);
    await deleteClient(scene.h.db, client);
    const gone = (await find(client)).html;
    assert.match(gone, new RegExp(`deleted is in the <a href="/desk/do/audit\\?of=${client}">audit</a>`));
  });

  it('find a video whose id is a part of another site’s name, and lead at once only to what is sure', async () => {
    const { h } = scene;
    const [one, other] = [await newSite(scene, secretUrl), await newSite(scene, secretUrl)];
    const find = (q: string) => visitors.support.get(`/desk/find?${new URLSearchParams({ q })}`);
    const asset = one.client.slice(1);
    const part = await find(asset);
    assert.equal(part.status, 200, 'half of a name');
    await h.publish({ client: other.client, asset });
    const { status, html } = await find(asset);
    assert.equal(status, 200);
    for (const path of [one.client, `${other.client}/asset?platform_id=${asset}`])
      assert.ok(html.includes(`href="/desk/clients/${path}"`), path);
    const { account_id } = await createAccount(h.db, { name: `Whole ${asset}` });
    const whole = await find(`whole ${asset}`);
    assert.equal(whole.headers.get('location'), `/desk/accounts/${account_id}`);

    const eventId = `an-${asset}`;
    const { id } = await h.publish({ client: one.client, asset: 'vid-9', eventId });
    const attributes = [
      { key: eventIdKey, value: [eventId] },
      { key: clientTokenKey, value: [one.client] },
    ];
    const started = Array.from({ length: 20 }, (_, i) =>
      h.temporal.workflow.start('enrichment', {
        taskQueue: `nobody-${asset}`,
        workflowId: `${eventId}-${i}`,
        typedSearchAttributes: attributes,
      }),
    );
    const handles = await Promise.all(started);
    await until('the search is cut', async () => /Only 20 workflows/.test((await find(eventId)).html));
    assert.ok((await find(eventId)).html.includes(`${one.client}/notifications/${id}"`));
    await Promise.all(handles.map((handle) => handle.terminate()));
  });

  it('act by a form on what its page shows, and take for granted no more than the least', async () => {
    const { client } = await pausedSite();
    const here = `/desk/clients/${client}`;
    const { html: forms } = await visitors.support.get(`${here}/actions`);
    assert.match(forms, /1 video waits and goes to the next URL\..*The default is 16 attempts in flight/s);
    const asked = new URLSearchParams({ platform_id: '"vid-1"', since: '2026-01-31T10:00' });
    const listed = await visitors.support.get(`${here}/notifications?${asked}`);
    const resend = await visitors.support.submit(listed, '/desk/do/notification/resend', { reason: 'x' });
    assert.match(resend.html, /1 would be sent again.*from 2026-01-31T10:00:00\.000Z/s);
    const why = await visitors.support.get(`${here}/asset?${asked}`);
    const forget = '/desk/do/asset/forget';
    await scene.h.publish({ client, asset: ' vid-1' });
    const blank = await visitors.support.get(`${here}/asset?platform_id=+vid-1`);
    assert.doesNotMatch(blank.html, /do\/asset\/forget/, 'a form loses the blank: another video');
    const asking = await visitors.support.submit(why, forget, { reason: 'x' });
    assert.equal(asking.status, 400);
    assert.match(asking.html, /Type vid-1 to confirm<.*name="typed" value=""/s);
    const given = {
      form_token: formTokenIn(asking.html),
      client_token: client,
      platform_id: 'vid-1',
      reason: 'x',
    };
    const linked = await visitors.support.get(
      `${forget}?${new URLSearchParams({ ...given, typed: 'vid-1' })}`,
    );
    assert.match(linked.html, /name="typed" value=""/);
    const other = await visitors.support.post(forget, { ...given, typed: client });
    assert.equal(other.status, 400);
    assert.match(other.html, /To confirm: is not the name of what is to be deleted/);
    assert.equal((await visitors.support.post(forget, { ...given, typed: 'vid-1' })).status, 200);
    assert.match((await visitors.support.get(`${here}/asset?${asked}`)).html, /Nothing is known/);
    const { html } = await visitors.admin.get('/desk/do/desk');
    assert.match(html, /<select id="desk-role"[^>]*><option value="look" selected>/);
  });

  it('change by a form only what was written in it, and nothing that somebody has changed since its page was opened', async () => {
    const { db } = scene.h;
    const { client, account_id } = await pausedSite();
    const { admin } = visitors;
    const site = await admin.get(`/desk/clients/${client}/actions`);
    const sendBounds = (page: Page, bounds: object) =>
      admin.submit(page, '/desk/do/client/set', { ...filled, ...bounds, reason: 'x' });
    const filled = {
      client_token: client,
      max_in_flight: 'default',
      max_per_second: 'default',
      quiet_seconds: '0',
    };
    await setClient(db, client, { max_per_second: 5 });
    assert.equal((await sendBounds(site, { quiet_seconds: '60' })).status, 200);
    assert.equal((await getClient(db, client))?.maxPerSecond, 5);
    const stale = await sendBounds(site, { max_per_second: '50' });
    assert.equal(stale.status, 409);
    assert.match(stale.html, /since this page was opened.*value="50".*name="was_max_per_second" value="5"/s);
    assert.equal((await getClient(db, client))?.maxPerSecond, 5);
    assert.equal((await sendBounds(stale, { max_per_second: '50' })).status, 200);
    assert.equal((await getClient(db, client))?.maxPerSecond, 50);
    assert.match((await sendBounds(site, {})).html, /Nothing was changed/);

    const customer = await admin.get(`/desk/accounts/${account_id}`);
    await setScopes(db, account_id, ['push_notifications', 'signing_secrets']);
    const scope = 'push_notifications enrichments';
    const set = await admin.submit(customer, '/desk/do/account/set', { scope, reason: 'x' });
    assert.equal(set.status, 409);
    assert.match(set.html, /is push_notifications signing_secrets since this page was opened/);
  });

  for (const [whose, scopes] of Object.entries({ publisher: undefined, platform: ['enrichments'] }))
    it(`have pages of the notices of a ${whose}, which speak of notices and of the call that sets their URL`, async () => {
      const { db, apiDeps } = scene.h;
      const { account_id } = await createAccount(db, { name: 'Noticed', scopes });
      const notices = whose === 'platform' ? 'notices:platform' : `notices:${account_id}`;
      const says = async (path: string) => (await visitors.look.get(path)).html.replaceAll(/<[^>]*>/g, '');
      assert.match(await says(`/desk/accounts/${account_id}`), /Notices\s*no URL is registered/);
      await setNoticesUrl(db, apiDeps.secretBox, account_id, 'http://127.0.0.1:9/notices');
      const { html } = await visitors.look.get(`/desk/accounts/${account_id}`);
      assert.match(html, new RegExp(`<a href="/desk/clients/${notices}">how they stand</a>`));
      assert.match(await says(`/desk/clients/${notices}`), /No notice waits/);
      const shown = await visitors.look.get(`/desk/do/registration/show?client_token=${notices}`);
      assert.match(shown.html, new RegExp(`<dd><a href="/desk/clients/${notices}">`));
      await scene.cli.json('registration', 'reset', notices);
      assert.match(
        await says(`/desk/clients/${notices}`),
        /nothing is sent\.\s*Its publisher must set one: PUT \/notices\./,
      );
    });

  it('recover what failed, which every page of its site says first; to the role look it shows no path of a URL and no form that changes something', async () => {
    const { client, id } = await pausedSite();
    const keys = scene.h.db.client(client);
    const at = Date.now();
    await scene.h.db.redis.hset(keys.failed, 'vid-2', `${id} expired L ${at} ${at} ${at} an-2`);
    await scene.h.db.redis.zadd(keys.failedAt, at, 'vid-2');
    for (const tab of ['', '/notifications', '/asset', '/actions', '/audit']) {
      const { html } = await visitors.look.get(`/desk/clients/${client}${tab}`);
      assert.match(
        html,
        /<main[^>]*>(?:(?!badge).)*1 video has .*failed.* since .*To recover.*deliveries are paused/s,
        tab,
      );
      assert.doesNotMatch(html, /url-secret|<form [^>]*method="post" action="(?!\/desk\/sign_out)/, tab);
    }
    const dismissed = { client_token: client, since: '1d' };
    const done = await scene.call('support', 'POST', '/operator/notification/dismiss', dismissed);
    assert.equal(done.body.count, 1, done.text);
    const entry = (await listChanges(scene.h.db, '-')).findLast(({ target }) => target === client);
    assert.deepEqual([entry?.what, entry?.cancels], ['notification dismiss', 1], 'for the metric');
  });

  it('are there while Redis is full, and say why when it does not answer: to programs, commands and people', async () => {
    const redis = opened(await startOwnRedis());
    const line = opened(await startProxy(redis.url));
    const away = opened(await startDesk({ REDIS_URL: line.url }));
    const ada = await personAt(away, 'look');
    await away.h.db.redis.config('SET', 'maxmemory', 1);
    const full = await away.call('look', 'GET', '/operator/status');
    assert.match(full.body.because, /^Redis is full/, full.text);
    line.hang();
    const why = /Redis does not answer/;
    const { status, body } = await away.call('look', 'GET', '/operator/status');
    assert.deepEqual([status, body.code], [503, 'temporarily_unavailable']);
    assert.match(body.msg, why);
    assert.match((await away.there('look', ['status'])).stderr, why);
    const page = await ada.get('/desk');
    assert.equal(page.status, 503);
    assert.match(page.html, why);
    assert.doesNotMatch(page.html, /taken effect/);
    const changed = await away.call('support', 'POST', '/operator/client/set', {});
    assert.match(changed.body.msg, /may or may not have taken effect/);
    line.release();
  });

  it('of a desk that a token has opened end with it', async () => {
    const { cli, url } = scene;
    const { token } = await cli.json('token', 'create', '--role', 'admin', '--name', 'opener');
    const opened = async (ask: (body: object) => Promise<Response>) => {
      const answer = await ask({ name: 'Eve', role: 'admin', reason: 'a test' });
      const { url: link } = (await answer.json()) as { url: string };
      const visitor = new Visitor(url);
      await visitor.post('/desk/open', { link: new URL(link).hash.slice(1) });
      return visitor;
    };
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const visitor = await opened((body) =>
      fetch(`${url}/operator/desk`, { method: 'POST', headers, body: JSON.stringify(body) }),
    );
    const status = async () => (await visitor.get('/desk')).status;
    assert.equal(await status(), 200);
    await cli.json('token', 'revoke', 'opener');
    assert.equal(await status(), 303);
    await cli.json('token', 'create', '--role', 'admin', '--name', 'opener');
    assert.equal(await status(), 303, 'another token of this name');
  });

  it('of a token end with it: an expired one, and a revoked one at once; the list shows the last use', async () => {
    const { cli, url } = scene;
    const create = (...more: string[]) => cli.json('token', 'create', '--role', 'look', ...more);
    const { token } = await create('--name', 'crm');
    const { token: brief } = await create('--name', 'brief', '--expires', '0.1s');
    const asked = async (given: string) =>
      (await fetch(`${url}/operator/status`, { headers: { authorization: `Bearer ${given}` } })).status;
    assert.equal(await asked(token), 200);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(await asked(brief), 401);
    const again = await cli.refused('token', 'create', '--name', 'crm', '--role', 'admin');
    assert.equal(again, 'There is a token crm: revoke it first, or choose another name.\n');
    const lastUse = async () =>
      (await cli.json('token', 'list')).find(({ name }: { name: string }) => name === 'crm').last_used_at;
    assert.ok(Date.now() - Date.parse(await lastUse()) < 60_000);
    await cli.json('token', 'revoke', 'crm');
    assert.equal(await asked(token), 401);
    // A call that was under way notes the use of the revoked token.
    await cli.db.redis.hset(cli.db.global.operatorTokensUsed, 'crm', Date.now());
    await create('--name', 'crm');
    assert.equal(await lastUse(), null);
    assert.ok(!JSON.stringify(await cli.db.redis.hgetall(cli.db.global.operatorTokens)).includes(token));
  });
});
