/**
 * Every call of the description with a request that is nearly right: each of its fields in every wrong place, a body that it does not
 * take, each broken form of a body. The answer names the cause, and nothing is done.
 */
import assert from 'node:assert/strict';
import { gzipSync } from 'node:zlib';
import { request } from 'undici';
import { startReceiver } from '../receiver.js';
import { forSuite, openForSuite } from '../servers.js';
import { newCustomer, startHarness } from '../service.js';
import { type Call, calls, everything, requestOf, type Subject } from './everyCall.js';

interface Attempt {
  path?: string;
  query?: URLSearchParams;
  type?: string;
  body?: string | Buffer;
  headers?: Record<string, string>;
}
type Case = [what: string, attempt: Attempt, status: number, says: RegExp];

const jsonType = 'application/json';
const formType = 'application/x-www-form-urlencoded';
const mib = 1024 * 1024;
const quotedPrintable = {
  type: 'multipart/form-data; boundary=b',
  body: '--b\r\nContent-Disposition: form-data; name=a\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nx\r\n--b--\r\n',
};
const quoted = (text: string) => text.replaceAll(/[^\w ]/g, '\\$&');

describe('every call, asked nearly right', () => {
  const receiver = forSuite(() => startReceiver());
  const h = openForSuite(() => startHarness({ ACCOUNT_RATE_PER_SECOND: '10000' }));
  const owner = forSuite(() => newCustomer(h));
  const platform = forSuite(() => newCustomer(h, ['enrichments']));
  let mine: Subject;
  let there: string[];
  let received: number;

  before(async () => {
    const { client_token } = owner;
    await owner.register(receiver.url);
    await owner.call('PUT', '/notices', { url: receiver.url });
    const { id } = await h.publish({ client: client_token, asset: 'vid-9', eventId: 'an-1' });
    await h.delivered(client_token, id);
    mine = { client_token, id, platform_id: 'vid-9', event_id: 'an-1' };
    there = await everything(h);
    received = receiver.received.length;
  });
  afterEach(async () => {
    assert.deepEqual(await everything(h), there);
    assert.equal(receiver.received.length, received);
  });

  async function ask(call: Call, { path, query, type, body, headers }: Attempt) {
    const { filled, query: correct } = requestOf(call, mine, { url: receiver.url, owner });
    const url = `${h.url}${path ?? filled}?${query ?? correct}`;
    const asked = {
      method: call.method.toUpperCase(),
      headers: {
        ...(call.needsToken && { authorization: `Bearer ${(call.isPublishing ? platform : owner).token}` }),
        ...(type !== undefined && { 'content-type': type }),
        ...headers,
      },
      ...(body !== undefined && { body }),
    };
    // fetch gives no body to a GET.
    const isGet = call.method === 'get' && body !== undefined;
    const answer = isGet ? await request(url, asked) : await fetch(url, asked);
    const told = await ('statusCode' in answer ? answer.body.json() : answer.json());
    const { msg, error_description: description = msg } = told as Record<string, string>;
    return { status: 'statusCode' in answer ? answer.statusCode : answer.status, words: String(description) };
  }

  /** Bodies of every kind for a call that takes none, and where its parameters belong. */
  function unwanted({ operation, names }: Call): Case[] {
    const query = operation.parameters.filter((one) => one.in === 'query').map(({ name }) => name);
    const says = new RegExp(
      ['takes no body', ...query.map((name) => `${name} belongs in the query`)].join('.*'),
    );
    const members = Object.fromEntries(names.map((name) => [name, 'x']));
    const part = `--b\r\ncontent-disposition: form-data; name="url"\r\n\r\n${receiver.url}\r\n--b--\r\n`;
    const bodies: Record<string, Attempt> = {
      JSON: { type: jsonType, body: JSON.stringify({ url: receiver.url, access: 'read', ...members }) },
      'a list of JSON': { type: jsonType, body: '[{}]' },
      'a form': { type: formType, body: `${new URLSearchParams({ url: receiver.url, ...members })}` },
      'a form in parts': { type: 'multipart/form-data; boundary=b', body: part },
      text: { type: 'text/plain', body: 'url' },
      'bytes without a type': { body: gzipSync('{}') },
      'more than any call takes': { type: jsonType, body: `{${' '.repeat(2 * mib)}}` },
    };
    return Object.entries(bodies).map(([what, attempt]) => [what, attempt, 400, says]);
  }

  /** Fields of the body or the path as parameters, and parameters of the query in the body or a header. */
  function misplaced(call: Call): Case[] {
    const { query, json, form } = requestOf(call, mine, { url: receiver.url, owner });
    const cases: Case[] = [];
    const places = [
      ...Object.keys(json ?? {}).map((name) => [name, 'in the body, as JSON']),
      ...(form ? ['client_id', 'client_secret', call.path.endsWith('revoke') ? 'token' : 'scope'] : []).map(
        (name) => [name, 'in the body, as a form'],
      ),
      ...call.operation.parameters
        .filter((one) => one.in === 'path')
        .map(({ name }) => [name, 'in the path']),
    ];
    for (const [name = '', place = ''] of places) {
      const asked = new URLSearchParams(query);
      asked.set(name, 'x');
      cases.push([`${name} in the query`, { query: asked }, 400, new RegExp(`${name} belongs ${place}`)]);
      if (place !== 'in the path') continue;
      const path = call.path.replace(/\{\w+\}/, 'caf%E9');
      cases.push([`${name} not in UTF-8`, { path }, 400, new RegExp(`${name} is not correctly percent-enc`)]);
    }
    if (!json) return cases;
    for (const [name, value] of query) {
      const body = JSON.stringify({ ...json, [name]: value });
      const says = new RegExp(`"${name}" belongs in the query`);
      cases.push([`${name} in both`, { type: jsonType, body }, 400, says]);
      const missing = new RegExp(`${name} is missing in the query`);
      const none = new URLSearchParams();
      cases.push([`${name} in the body`, { type: jsonType, body, query: none }, 400, missing]);
      const headers = { [name]: value };
      cases.push([`${name} as a header`, { type: jsonType, body, query: none, headers }, 400, missing]);
    }
    const fields = new URLSearchParams(
      Object.entries(json).map(([name, value]): [string, string] => [name, `${value}`]),
    );
    cases.push(['its members as a form', { type: formType, body: `${fields}` }, 415, /application\/json/]);
    return cases;
  }

  /** Bodies that cannot be read as the JSON or the form that the call takes. */
  function broken(call: Call): Case[] {
    const { json, form } = requestOf(call, mine, { url: receiver.url, owner });
    const latin = Buffer.from(`{"a":"Caf\xe9"}`, 'latin1');
    const encoded = (name: string) => ({ 'content-encoding': name });
    if (form) {
      const fields = `${new URLSearchParams(form)}`;
      const type = formType;
      return [
        ['JSON', { type: jsonType, body: JSON.stringify(form) }, 415, /x-www-form-urlencoded/],
        ['JSON that is said to be a form', { type, body: JSON.stringify(form) }, 400, /is JSON/],
        ['parts that are said to be a form', { type, body: '--b\r\n' }, 400, /is multipart/],
        ['parts without a boundary', { type: 'multipart/form-data', body: fields }, 400, /no boundary/],
        ['no parts', { type: 'multipart/form-data; boundary=b', body: fields }, 400, /boundary that/],
        ['no UTF-8', { type, body: Buffer.from(`${fields}&a=\xe9`, 'latin1') }, 400, /UTF-8: see byte \d+/],
        ['UTF-16', { type, body: Buffer.from(fields, 'utf16le') }, 400, /bytes 0, as UTF-16/],
        ['quoted-printable', quotedPrintable, 400, /is quoted-printable/],
        ['gzip', { type, body: gzipSync(fields) }, 400, /is gzip/],
        ['gzip, as said', { type, body: gzipSync(fields), headers: encoded('gzip') }, 415, /Encoding/],
        ['another charset', { type: `${type}; charset=utf-16`, body: fields }, 415, /charset/],
        ['too long', { type, body: `${fields}&a=${'x'.repeat(mib)}` }, 413, /4,096 bytes/],
        ['text', { type, body: 'hello' }, 400, /is missing/],
      ];
    }
    if (!json) return [];
    const good = JSON.stringify(json);
    const type = jsonType;
    const gzip = encoded('gzip');
    return [
      ['no UTF-8', { type, body: latin }, 400, /UTF-8: see byte 10$/],
      ...[good, `\ufeff${good}`].flatMap((text): Case[] => {
        const utf16 = Buffer.from(text, 'utf16le');
        const says = /bytes 0, as UTF-16/;
        return [
          [`UTF-16 of ${text.length}`, { type, body: utf16 }, 400, says],
          [`UTF-16BE of ${text.length}`, { type, body: Buffer.from(utf16).swap16() }, 400, says],
        ];
      }),
      ['another charset', { type: `${type}; charset=ISO-8859-1`, body: good }, 415, /charset of JSON/],
      ['gzip', { type, body: gzipSync(good) }, 400, /is gzip, but there is no Content-Encoding/],
      ['no gzip', { type, body: good, headers: gzip }, 400, /Content-Encoding is gzip, but the body is not/],
      ['half of gzip', { type, body: gzipSync(good).subarray(0, -9), headers: gzip }, 400, /breaks off/],
      ['an unknown encoding', { type, body: good, headers: encoded('zstd') }, 415, /gzip, deflate or br/],
      ['too long', { type, body: `${good}${' '.repeat(3 * mib)}` }, 413, /longer than [\d,]+ bytes/],
      ['too long unpacked', { type, body: gzipSync(' '.repeat(3 * mib)), headers: gzip }, 413, /longer/],
      ['a form', { type, body: 'since=1' }, 400, /is not JSON: see line 1, column 1$/],
      ['another type', { type: 'text/json', body: good }, 415, /application\/json/],
      ['repeated', { type, body: good.replace('{', '{"a":[{"b":"\\""}],"a":0,') }, 400, /member a is rep/],
      ['null', { type, body: 'null' }, 400, /body: must be an object$/],
      ...Object.entries(brokenJson).map(([body, place]): Case => {
        return [body, { type, body }, 400, new RegExp(`is not JSON: .*${quoted(place)}$`)];
      }),
    ];
  }

  for (const call of calls) {
    it(call.name, async () => {
      const takesBody = call.isJson || call.isForm;
      for (const [what, attempt, status, says] of [
        ...misplaced(call),
        ...(takesBody ? broken(call) : unwanted(call)),
      ]) {
        const told = await ask(call, attempt);
        assert.equal(told.status, status, `${what}: ${JSON.stringify(told)}`);
        assert.match(told.words, says, what);
      }
    });
  }

  it('takes no notice of a body that says nothing, and of a type without a body', async () => {
    const call = calls.find(({ name }) => name === 'GET /clients') ?? assert.fail();
    for (const body of ['', '{}', ' { }\n', '[]', 'null\n'])
      assert.equal((await ask(call, { type: jsonType, body })).status, 200);
  });

  it('says what is wrong with the form of a token, which is 401', async () => {
    for (const [authorization, says] of [
      ['Bearer undefined', /is the word undefined/],
      ['Bearer null', /is the word null/],
      ['Bearer "tok"', /has the character "/],
      ['Bearer tok%0D', /has the character %/],
      ['Bearer: tok', /has the character :/],
      ['Bearer Bearer tok', /has the character U\+0020/],
      ['Bearer tok, Basic eA==', /has the character ,/],
      ['bearer\ttok', /no longer valid/],
    ] as const) {
      const answer = await fetch(`${h.url}/clients`, { headers: { authorization } });
      const { msg } = (await answer.json()) as { msg: string };
      assert.equal(answer.status, 401);
      assert.match(msg, says);
      assert.equal(answer.headers.get('www-authenticate'), 'Bearer error="invalid_token"');
    }
    const asked = new URLSearchParams({ access_token: 'tok\r', client_token: 'x', url: 'https://e.example' });
    const answer = await fetch(`${h.url}/register_push_notifications?${asked}`, { method: 'POST' });
    assert.match(((await answer.json()) as { msg: string }).msg, /has the character U\+000D/);
  });
});

/** JSON with one mistake, and where it is. */
const brokenJson: Record<string, string> = {
  '// x': 'line 1, column 1',
  '\u00a0{}': 'line 1, column 1',
  undefined: 'line 1, column 1',
  "{'since':1}": 'line 1, column 2',
  '{"a":True}': 'line 1, column 6',
  '{"a":1,}': 'line 1, column 8',
  '{"a":1': 'line 1, column 7',
  '{"a":': 'ends too early, see line 1, column 6',
  '{\n "some_name": [1, 2, 3],\n "b": nul }': 'line 3, column 10',
  '{"a":1}{': 'line 1, column 8',
};
