import assert from 'node:assert/strict';
import { connectionLimits } from '../../src/api/server.js';
import { formAtMostBytes } from '../../src/api/steps/body/readForm.js';
import { parametersAtMost } from '../../src/api/steps/parameters.js';
import { readConfig } from '../../src/config.js';
import { previousSigningSecretsAtMost } from '../../src/redis/records/signingSecrets.js';
import { constant } from './constant.js';
import { readPage, rowsOf, section } from './tables.js';

const page = readPage('docs/reference/limits.md');
const config = readConfig({});

describe('docs/reference/limits.md', () => {
  holds('Calls', [
    ['tokens minted', [config.TOKEN_RATE_PER_SECOND]],
    ['failed token calls', [constant('failuresAllowed'), 'a minute']],
    [
      'calls of one account that look up a host name',
      [config.ACCOUNT_RATE_PER_SECOND, constant('windowSeconds')],
    ],
    ['a page of', [constant('defaultLimit'), constant('maxLimit')]],
    ['calls that send something', [constant('sendEveryMs') / 1000, constant('sendBurst')]],
    ['previous signing secrets of one client', [previousSigningSecretsAtMost]],
    [
      'request headers of a client',
      [constant('ownHeadersAtMost'), constant('headerNameAtMost'), constant('headerValueAtMost')],
    ],
    ['calls of the API in the audit', [constant('keptOfAnAccount')]],
    ['body of a form', [kib(formAtMostBytes)]],
    ['body of `POST /enrichments`', [constant('eventsAtMost')]],
    ['parameters of a query', [parametersAtMost]],
    ['headers of a request', [kib(connectionLimits.headerBytes)]],
    ['hops in', [constant('hopsAtMost')]],
    [
      'time for the headers',
      [seconds('headersTimeoutMs'), seconds('requestTimeoutMs'), seconds('checkEveryMs')],
    ],
    ['time for sending an answer', [seconds('sendMs')]],
    ['a connection without traffic', [seconds('silenceMs')]],
    ['a connection between two requests', [seconds('keepAliveTimeoutMs')]],
    ['connections', [connectionLimits.connections]],
  ]);

  holds('Notifications sent', [
    ['connections to one origin', [config.connectionsPerOrigin]],
    ['connections to all origins', [config.maxSockets]],
    ['an idle connection', [`${constant('keepAliveMs') / 1000} s`]],
    ['one attempt', [config.ATTEMPT_TIMEOUT_SECONDS]],
    ['bytes read of an answer', [kib(constant('maxHeaderBytes')), kib(constant('maxBodyBytes'))]],
  ]);

  /** Each row is one whose first cell begins so, and names each of these. */
  function holds(heading: string, expected: [begins: string, named: (number | string)[]][]): void {
    for (const [begins, named] of expected) {
      it(`${heading}: ${begins}`, () => {
        const row = rowsOf(section(page, heading)).find(([what]) => what?.startsWith(begins));
        assert.ok(row, 'no such row');
        const text = row.join(' ');
        for (const value of named.map(written))
          assert.match(text, new RegExp(`(?<![\\d,.])${value}(?![\\d])`));
      });
    }
  }
});

function written(value: number | string): string {
  return typeof value === 'number' ? value.toLocaleString('en-US') : value;
}

function kib(bytes: number): string {
  return `${bytes / 1024} KiB`;
}

function seconds(
  limit:
    | 'headersTimeoutMs'
    | 'requestTimeoutMs'
    | 'sendMs'
    | 'checkEveryMs'
    | 'silenceMs'
    | 'keepAliveTimeoutMs',
) {
  return `${connectionLimits[limit] / 1000} s`;
}
