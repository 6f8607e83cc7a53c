import assert from 'node:assert/strict';
import type Router from '@koa/router';
import Koa from 'koa';
import { createApi } from '../../src/api/app.js';
import { openapi } from '../../src/api/reference/openapi.js';
import { listenAdmin } from '../../src/http/admin.js';
import { jsonReader } from '../../src/http/body.js';
import { connectionLimits, listen } from '../../src/http/server.js';
import { redisReasons } from '../../src/redis/connection/unavailable.js';
import { signedIn } from '../console/visitor.js';
import { startGate, until } from '../receiver.js';
import { openForSuite } from '../servers.js';
import { keptLog, newCustomer, newToken, startHarness, tokenFields } from '../service.js';
import { callRaw } from './rawCaller.js';
import { assertGeneratable } from './reference/madeClients.js';

describe('the HTTP edge', () => {
  const { log, lines } = keptLog();
  const h = openForSuite(() =>
    startHarness({ SOURCE_ADDRESSES: '198.51.100.7,2001:db8:5::/64' }, 'api', { log }),
  );

  it('answers every error outside /oauth with msg, code, type, title and request_id, also 404 and 405; under /oauth as RFC 6749', async () => {
    for (const [method, path, status] of [
      ['GET', '/nowhere', 404],
      ['GET', '/assets/a/b', 404],
      ['PROPFIND', '/clients', 405],
      ['PROPFIND', '/nowhere', 404],
      ['GET', '/oauth/access_token', 405],
    ] as const) {
      const answer = await fetch(h.url + path, { method });
      const body = (await answer.json()) as Record<string, string>;
      assert.equal(answer.status, status);
      const ofRfc = path.startsWith('/oauth') && ['error', 'error_description'];
      assert.deepEqual(Object.keys(body), ofRfc || ['msg', 'code', 'type', 'title', 'request_id']);
      if (body.code === 'not_found') assert.match(String(body.title), /slash at their end.*is `%2F`/);
      if (!ofRfc) assert.equal(body.request_id, answer.headers.get('x-request-id'));
      assert.equal(Boolean(answer.headers.get('allow')), status === 405);
    }
  });

  it('uses the caller’s X-Request-Id if it has a safe form', async () => {
    const idOf = async (id: string) =>
      (await fetch(`${h.url}/healthz`, { headers: { 'x-request-id': id } })).headers.get('x-request-id');
    assert.equal(await idOf('trace-0123456789'), 'trace-0123456789');
    assert.match((await idOf('a b {"c"')) ?? '', /^[0-9a-f-]{36}$/);
  });

  it('shows requests by route at GET /metrics on the admin port, without labels of accounts or clients', async () => {
    const customer = await newCustomer(h);
    const { metrics, readiness } = h.apiDeps;
    metrics.watch('asset_update_claims_under_way', () => 3);
    metrics.watch('asset_update_sweep_schedule_paused', () => undefined);
    const admin = await listenAdmin({ ADMIN_HOST: '127.0.0.1', ADMIN_PORT: 0 }, metrics, readiness);
    const get = async (path: string) => (await fetch(`http://127.0.0.1:${admin.port}${path}`)).text();
    const text = await get('/metrics');
    assert.match(
      text,
      /asset_update_http_request_duration_seconds_count\{method="POST",route="\/oauth\/access_token",status="200"\} [1-9]/,
    );
    assert.match(text, /asset_update_access_tokens_minted_total [1-9]/);
    assert.match(text, /asset_update_claims_under_way 3/);
    assert.doesNotMatch(text, /asset_update_sweep_schedule_paused \d/);
    for (const name of [customer.client_token, customer.client_id, customer.account_id])
      assert.ok(!text.includes(name));
    assert.equal(await get('/healthz'), '{"status":"ok"}');
    assert.match(await get('/readyz'), /"ready"/);
    await admin.close();
  });

  it('logs one line for each request, at debug level for successes of busy routes, and a proxy that is not trusted once', async () => {
    const customer = await newCustomer(h);
    lines.length = 0;
    const { client_token, token } = customer;
    const wrong = new URLSearchParams({ ...tokenFields(customer), client_secret: 'wrong' });
    await newToken(h, customer);
    const headers = { 'x-forwarded-for': '198.51.100.7' };
    await fetch(`${h.url}/oauth/access_token`, { method: 'POST', body: wrong, headers });
    const query = `access_token=${token}&client_token=${client_token}&url=http://127.0.0.1:9/hook`;
    for (const more of ['', '&odd=1'])
      await fetch(`${h.url}/register_push_notifications?${query}${more}`, { method: 'POST', headers });
    await customer.call('GET', '/nowhere');
    await customer.call('GET', '/push_notifications/signing_secret');
    const requests = lines.filter(({ route }) => route !== undefined);
    const told = requests.map(({ level, route, status }) => [level, route, status]);
    assert.deepEqual(told, [
      [20, '/oauth/access_token', 200],
      [30, '/oauth/access_token', 401],
      [30, '/register_push_notifications', 200],
      [30, '/register_push_notifications', 400],
      [30, 'none', 404],
      [30, '/push_notifications/signing_secret', 200],
    ]);
    const warned = lines.filter(({ level }) => level === 40).map(({ address }) => address);
    assert.deepEqual(warned, ['127.0.0.1']);
  });

  it('answers 500 to an unexpected error, without details', async () => {
    const whole = createApi(h.apiDeps);
    whole.middleware.splice(6, 0, () => {
      throw new Error('inner detail');
    });
    const server = await listen({ HOST: '127.0.0.1', PORT: 0 }, whole);
    const answer = await fetch(`http://127.0.0.1:${server.port}/clients`);
    const text = await answer.text();
    await server.close();
    assert.equal(answer.status, 500);
    assert.match(text, /"code":"server_error"/);
    assert.doesNotMatch(text, /inner detail/);
  });

  it('describes every route at GET /openapi.json, which GET /docs shows without loading from other sites', async () => {
    const described = (await (await fetch(`${h.url}/openapi.json`)).json()) as typeof openapi;
    const inDescription = Object.entries(described.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{\w+\}/g, '*')}`),
    );
    const routed = createApi(h.apiDeps).middleware.flatMap((step) => {
      const { router } = step as unknown as { router?: Router };
      return (router?.stack ?? []).flatMap((layer) =>
        layer.methods
          .filter((method) => method !== 'HEAD' && !String(layer.path).startsWith('/docs/'))
          .map((method) => `${method} ${String(layer.path).replaceAll(/:\w+/g, '*')}`),
      );
    });
    // Pages for browsers are no calls: docs/guides/console.md describes them.
    const calls = routed.filter((route) => !/ \/console(\/|$)/.test(route));
    assert.deepEqual(inDescription.toSorted(), [...new Set(calls)].toSorted());
    const page = await fetch(`${h.url}/docs`);
    assert.match(page.headers.get('content-type') ?? '', /text\/html/);
    const html = await page.text();
    assert.doesNotMatch(html, /<script>|<style|style=|https?:/);
    const policy = page.headers.get('content-security-policy') ?? '';
    assert.doesNotMatch(policy, /unsafe|https?:|\*/);
    const files = [...html.matchAll(/(?:src|href)="(\/docs\/[^"]+)"/g)].map(([, path]) => String(path));
    assert.equal(files.length, 4);
    for (const path of [...files, '/docs', '/openapi.json']) {
      const file = await fetch(h.url + path);
      assert.equal(file.status, 200, path);
      const type = path.endsWith('.css') ? /^text\/css/ : /script|html|json/;
      assert.match(file.headers.get('content-type') ?? '', type);
      assert.ok((await file.text()).length > 50, path);
      const tag = file.headers.get('etag') ?? '';
      assert.match(tag, /^W\//, 'packed and not');
      const headers = { 'if-none-match': tag, 'cache-control': 'max-age=0' };
      assert.equal((await fetch(h.url + path, { headers })).status, 304, path);
    }
    for (const path of ['/docs/package.json', '/docs/..%2fpackage.json'])
      assert.equal((await fetch(h.url + path)).status, 404, path);
  });

  it('keeps the names of calls and schemas, which generated clients have', () => {
    const operations = Object.values({ ...openapi.paths, ...openapi.webhooks }).flatMap(Object.values);
    const ids = (operations as { operationId: string }[]).map(({ operationId }) => operationId);
    const names = [...ids.sort(), ...Object.keys(openapi.components.schemas).sort()];
    const kept = `
      checkReceiver createAccessToken createConsoleSession dismissNotifications explainAsset explainAssetInPath explainEvent forgetAsset
      forgetAssetInPath getDocs getHealth getNoticesSecret getNoticesUrl getNotification getOpenApi getPushNotifications getReadiness
      getRequestHeaders getSigningSecret getSourceAddresses getUrlRequest listClients listNotifications listUpdates
      publishEnrichments receiveAssetUpdate receiveNotice receiveNoticesChanged recoverNotifications
      redeliverNotification registerPushNotifications removeNoticesUrl replayNotifications requestUrl
      resumePushNotifications revokeAccessToken rotateNoticesSecret rotateSigningSecret sendTestNotification
      setNoticesUrl setQuietPeriod setRequestHeaders AttemptDetail AttemptRemark BatchResult
      EnrichmentEvent ErrorCode EventBatch Notification NotificationWithAttempts OAuthProblem Problem Publication
      PublicationAnswer`;
    assert.deepEqual(names, kept.trim().split(/\s+/));
    assertGeneratable(openapi);
    const { Publication, ...read } = openapi.components.schemas;
    assert.doesNotMatch(JSON.stringify(read), /"oneOf"/, 'what answers name is no union');
    const values = Object.values(openapi.components.schemas).flatMap((one) => (one.enum ?? []) as string[]);
    assert.equal(new Set(values).size, values.length, 'in Go the constants of all enums share a package');
    // Another call may remove the URL during each of them.
    for (const [path, methods] of Object.entries(openapi.paths))
      for (const { responses } of path.startsWith('/notices') ? Object.values(methods) : [])
        assert.ok('404' in responses, path);
    const reasons = `"x-known-values":${JSON.stringify(redisReasons)}`;
    assert.ok(JSON.stringify(openapi.paths['/readyz']).includes(reasons));
    // A health check is never refused for its number.
    for (const path of ['/healthz', '/readyz'])
      assert.ok(!('429' in (openapi.paths[path]?.get?.responses ?? assert.fail())));
  });

  it('answers /openapi.json packed to who takes it', async () => {
    const path = `${h.url}/openapi.json`;
    const answer = await fetch(path, { headers: { 'accept-encoding': 'gzip' } });
    assert.equal(answer.headers.get('content-encoding'), 'gzip');
    assert.equal(((await answer.json()) as typeof openapi).openapi, '3.1.0');
    assert.equal(
      (await fetch(path, { headers: { 'accept-encoding': '' } })).headers.get('content-encoding'),
      null,
    );
  });

  it('lists at GET /source_addresses without a token, cacheable, and the time since when the list stands', async () => {
    const list = async () => {
      const answer = await fetch(`${h.url}/source_addresses`);
      assert.equal(answer.headers.get('cache-control'), 'public, max-age=3600');
      return (await answer.json()) as { addresses: string[]; changed_at: string };
    };
    const { addresses, changed_at: at } = await list();
    assert.deepEqual(addresses, ['198.51.100.7', '2001:db8:5::/64']);
    assert.equal((await list()).changed_at, at);
    await h.db.redis.hset(h.db.global.sourceAddresses, { list: '198.51.100.8', changed_at: 1 });
    assert.ok(Date.parse((await list()).changed_at) >= Date.parse(at));
  });

  it('sends pages with headers against framing, another base, foreign forms, sniffing and referrers', async () => {
    const visitor = await signedIn(h, (await newCustomer(h)).token);
    const ofConsole = ['/console', '/console/open', '/console/nowhere', '/console/assets/console.js'];
    for (const path of ['/docs', '/openapi.json', ...ofConsole]) {
      const { headers } = await visitor.get(path);
      const policy = (headers.get('content-security-policy') ?? '').split('; ');
      for (const part of [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
      ])
        assert.ok(policy.includes(part), `${path}: ${part}`);
      assert.equal(headers.get('x-content-type-options'), 'nosniff');
      assert.equal(headers.get('referrer-policy'), 'same-origin');
    }
  });
});

describe('ending the server', () => {
  it('waits for no caller that does not go on: silent, within a head or a body, or byte by byte', async () => {
    const begun = startGate();
    const app = new Koa();
    app.use(async (ctx) => {
      begun.open();
      ctx.body = String(await jsonReader(9)(ctx.req).catch((err: Error) => err.message));
    });
    const limits = { ...connectionLimits, lastHeadMs: 50, lastRestMs: 100 };
    const server = await listen({ HOST: '127.0.0.1', PORT: 0 }, app, limits);
    const head = 'POST / HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n';
    const callers = ['', 'POST / HT', head, `${head}\r\n"half`].map((bytes) =>
      callRaw(`http://127.0.0.1:${server.port}`, bytes),
    );
    const dripping = setInterval(() => callers[2]?.socket.write('x'), 10);
    await begun.closed;
    await server.close();
    clearInterval(dripping);
    const heard = await Promise.all(callers.map(({ closed }) => closed.catch(() => '')));
    assert.match(heard[3] ?? '', /The request took too long: 5 of 9 bytes of the body came/);
  }).timeout(10_000);

  it('accepts nothing new, finishes requests under way and closes idle connections', async () => {
    const [begun, goOn] = [startGate(), startGate()];
    const app = new Koa();
    app.use(async (ctx) => {
      if (ctx.path === '/slow') {
        begun.open();
        await goOn.closed;
      }
      ctx.body = 'done';
    });
    const server = await listen({ HOST: '127.0.0.1', PORT: 0 }, app);
    const url = `http://127.0.0.1:${server.port}`;
    const idle = callRaw(url, 'GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    await until('it is answered', () => idle.heard().endsWith('done'));
    const slow = callRaw(url, 'GET /slow HTTP/1.1\r\nhost: x\r\n\r\n');
    await begun.closed;
    const closed = server.close();
    await idle.closed;
    await assert.rejects(fetch(url));
    goOn.open();
    assert.match(await slow.closed, /^connection: close\r\n[\s\S]*done$/im);
    await closed;
  });
});
