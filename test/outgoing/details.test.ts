import assert from 'node:assert/strict';
import { explainFailure } from '../../src/outgoing/details.js';

it('a failed attempt with a status is told by it, with or without a detail', () => {
  for (const [status, detail, does, advice] of [
    [503, 'retry_after_unreadable', 'answers 503 and sends a Retry-After that we cannot read', /HTTP date/],
    [304, undefined, 'answers 304', /answer 2xx/],
    [405, undefined, 'answers 405', /take POST.*path/],
    [403, undefined, 'answers 403', /secret.*gateway.*firewall.*CSRF/],
    [419, undefined, 'answers 419', /^If your framework .*CSRF.*exempt this URL/],
    [503, undefined, 'answers 503', /log.*lower our request rate/],
    [502, undefined, 'answers 502', /logs of your server and of each proxy/],
  ] as const) {
    const told = explainFailure({ error: 'http_status', status, detail });
    assert.equal(told.does, does);
    assert.match(told.advice, advice);
  }
});

it('a server without a certificate for the name, however it ends the handshake, is told of it', () => {
  for (const detail of ['certificate_name', 'tls_name_unknown', 'tls_cipher', 'handshake_broken'])
    assert.match(explainFailure({ error: 'tls', detail }).advice, /certificate .* the URL’s host/);
});
