import assert from 'node:assert/strict';
import { createApi } from '../../src/api/app.js';
import { type ErrorCode, errors } from '../../src/api/errors.js';
import { connectionLimits, listen } from '../../src/api/server.js';
import { type RunningApi, sharedApi } from '../service.js';
import { callRaw, statusesIn } from './rawCaller.js';

describe('errors', () => {
  let api: RunningApi;
  before(async () => {
    api = await sharedApi();
  });

  const head = (line: string, ...headers: string[]) =>
    [`${line} HTTP/1.1`, 'connection: close', ...headers, '', ''].join('\r\n');

  describe('errors of the HTTP parser have the form of every error', () => {
    const cases: Record<string, [bytes: string, code: ErrorCode]> = {
      'no HTTP': ['odd\r\n\r\n', 'malformed_request'],
      'HTTP/2': ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'malformed_request'],
      'no Host': [head('GET /healthz'), 'malformed_request'],
      'an unknown transfer encoding': [
        head('POST /nowhere', 'host: x', 'transfer-encoding: gzip'),
        'malformed_request',
      ],
      'headers that are too long': [head('GET /', 'host: x', `x: ${'x'.repeat(40_000)}`), 'headers_too_long'],
      'a path that is too long': [head(`GET /${'x'.repeat(40_000)}`, 'host: x'), 'headers_too_long'],
      'an expectation': [head('GET /healthz', 'host: x', 'expect: a miracle'), 'expectation_failed'],
    };
    for (const [name, [bytes, code]] of Object.entries(cases)) {
      it(`${name}: ${errors[code].status} ${code}`, async () => {
        const heard = await callRaw(api.url, bytes).closed;
        assert.deepEqual(statusesIn(heard), [errors[code].status]);
        assertProblem(heard, code);
      });
    }

    it('answers 408 request_timeout to a request that takes too long, under /oauth in the form of RFC 6749', async () => {
      const limits = { ...connectionLimits, headersTimeoutMs: 200, requestTimeoutMs: 300, checkEveryMs: 50 };
      const server = await listen({ HOST: '127.0.0.1', PORT: 0 }, createApi(api.deps), limits);
      const url = `http://127.0.0.1:${server.port}`;
      const post = (path: string) =>
        callRaw(
          url,
          head(
            `POST ${path}`,
            'host: x',
            'content-type: application/x-www-form-urlencoded',
            'x-request-id: trace-0123',
            'content-length: 9',
          ),
        ).closed;
      const [halfHead, oauth] = await Promise.all([
        callRaw(url, 'GET / HTTP/1.1\r\nho').closed,
        post('/oauth/access_token'),
      ]);
      await server.close();
      assertProblem(halfHead, 'request_timeout');
      assert.deepEqual(statusesIn(oauth), [408]);
      assert.match(oauth, /^x-request-id: trace-0123\r$/im);
      assert.deepEqual(Object.keys(bodyOf(oauth)), ['error', 'error_description']);
    });

    function assertProblem(heard: string, code: ErrorCode): void {
      const body = bodyOf(heard);
      assert.deepEqual(Object.keys(body), ['msg', 'code', 'type', 'title', 'request_id']);
      assert.equal(body.code, code);
      assert.match(heard, new RegExp(`^x-request-id: ${body.request_id}\r$`, 'im'));
      assert.match(heard, /^content-type: application\/json; charset=utf-8\r$/im);
      assert.match(heard, /^connection: close\r$/im);
    }

    const bodyOf = (heard: string) =>
      JSON.parse(heard.slice(heard.indexOf('\r\n\r\n'))) as Record<string, string>;
  });
});
