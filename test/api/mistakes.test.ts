/**
 * Every call of the description with a request that is nearly right: each of its fields in every wrong place, a body that it does not
 * take, each broken form of a body. The answer names the cause, and nothing is done.
 */
import assert from 'node:assert/strict';
import { deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { request } from 'undici';
import { startReceiver } from '../receiver.js';
import { forSuite, openForSuite } from '../servers.js';
import { newCustomer, startHarness } from '../service.js';
import { type Call, calls, everything, requestOf, type Subject } from './everyCall.js';

interface Attempt {
  method?: string;
  path?: string;
  query?: URLSearchParams;
  /** In the place of `query`, as it is. */
  search?: string;
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
const partsType = 'multipart/form-data; boundary';
const quoted = (text: string) => text.replaceAll(/[^\w ]/g, '\\$&');

describe('every call, asked nearly right', () => {
  const receiver = forSuite(() => startReceiver());
  const h = openForSuite(() =>
    startHarness({ ACCOUNT_RATE_PER_SECOND: '10000', TOKEN_RATE_PER_SECOND: '10000' }),
  );
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

  async function ask(
    call: Call,
    { method = call.method, path, query, search, type, body, headers }: Attempt,
  ) {
    const { filled, query: correct } = requestOf(call, mine, { url: receiver.url, owner });
    const url = `${h.url}${path ?? filled}?${search ?? query ?? correct}`;
    const asked = {
      method: method.toUpperCase(),
      headers: {
        ...(call.needsToken && { authorization: `Bearer ${(call.isPublishing ? platform : owner).token}` }),
        ...(type !== undefined && { 'content-type': type }),
        ...headers,
      },
      ...(body !== undefined && { body }),
    };
    // fetch gives no body to a GET.
    const isGet = method.toUpperCase() === 'GET' && body !== undefined;
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
      cases.push([
        `${name} not in UTF-8`,
        { path },
        400,
        new RegExp(`${name} is not correctly percent-encoded: its bytes are no UTF-8`),
      ]);
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
        ['no parts', { type: `${partsType}=b`, body: fields }, 400, /does not have the boundary that/],
        ['no UTF-8', { type, body: Buffer.from(`${fields}&a=\xe9`, 'latin1') }, 400, /UTF-8: see byte \d+/],
        ['UTF-16', { type, body: Buffer.from(fields, 'utf16le') }, 400, /bytes 0, as UTF-16/],
        ['quoted-printable', quotedPrintable, 400, /is quoted-printable/],
        ['gzip', { type, body: gzipSync(fields) }, 400, /is gzip/],
        ['gzip, as said', { type, body: gzipSync(fields), headers: encoded('gzip') }, 415, /Encoding/],
        ['another charset', { type: `${type}; charset=utf-16`, body: fields }, 415, /charset/],
        ['too long', { type, body: `${fields}&a=${'x'.repeat(mib)}` }, 413, /4,096 bytes/],
        ['text', { type, body: 'hello' }, 400, /is missing; not known: hello$/],
        ['no body', { type }, 400, /no body, or an empty one: send (grant_type|token), client_id/],
        ['no body and no type', {}, 400, /no body, or an empty one: send .* as application\/x-www/],
        ...handMade(call, form),
        ...handMadeParts(form),
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
      ['no gzip', { type, body: good, headers: gzip }, 400, /Content-Encoding is gzip, but the body is not$/],
      [
        'half of gzip',
        { type, body: gzipSync(good).subarray(0, -9), headers: gzip },
        400,
        /gzip, but the body breaks off$/,
      ],
      ['an unknown encoding', { type, body: good, headers: encoded('zstd') }, 415, /gzip, deflate or br/],
      ['too long', { type, body: `${good}${' '.repeat(3 * mib)}` }, 413, /longer than [\d,]+ bytes/],
      ['too long unpacked', { type, body: gzipSync(' '.repeat(3 * mib)), headers: gzip }, 413, /longer/],
      ['a form', { type, body: 'since=1' }, 400, /is not JSON: see line 1, column 1$/],
      ...['text/json', 'text/plain', 'application/jsonp'].map(
        (other): Case => [other, { type: other, body: good }, 415, /application\/json/],
      ),
      // Bytes alone say no content type.
      ['no type', { body: Buffer.from(good) }, 415, /application\/json/],
      ['repeated', { type, body: good.replace('{', '{"a":[{"b":"\\""}],"a":0,') }, 400, /member a is rep/],
      ['null', { type, body: 'null' }, 400, /body: must be an object$/],
      ...[deflateSync, deflateRawSync].map((pack): Case => {
        return [
          'deflate',
          { type, body: pack('null'), headers: encoded('deflate') },
          400,
          /: must be an object$/,
        ];
      }),
      [
        'half of deflate',
        { type, body: deflateRawSync(good).subarray(0, -3), headers: encoded('deflate') },
        400,
        /deflate, but the body breaks off$/,
      ],
      ['a property', { type, body: good, headers: encoded('constructor') }, 415, /gzip, deflate or br/],
      ['US-ASCII', { type: `${type}; charset=us-ascii`, body: 'null' }, 400, /body: must be an object$/],
      ...[{ type }, { type, body: '' }, {}].map(
        (none): Case => ['no body', none, 400, /no body, or an empty one: send JSON/],
      ),
      ...Object.entries(brokenJson).map(([body, place]): Case => {
        return [body, { type, body }, 400, new RegExp(`is not JSON: .*${quoted(place)}$`)];
      }),
    ];
  }

  /** Other methods at the path of a call, and the call at paths that are nearly its own. */
  function elsewhere(call: Call): Case[] {
    const { path, method } = call;
    const matches = (one: Call) => new RegExp(`^${one.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path);
    const there = calls.filter(matches).map((one) => one.method.toUpperCase());
    const others = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'].filter((one) => !there.includes(one));
    const says = new RegExp(`(is not allowed at this path: send .*${method.toUpperCase()})`);
    const place = new RegExp(`nothing at this address: the path is ${quoted(path)}, in lower case`);
    const { filled } = requestOf(call, mine, { url: receiver.url, owner });
    const paths = [
      `${filled}/`,
      `/${filled}`,
      filled.replace(/[a-z]/, (letter) => letter.toUpperCase()),
      `/api/v1${filled}`,
    ];
    return [
      ...others.map((one): Case => [one, { method: one }, 405, says]),
      ...paths.map((one): Case => [one, { path: one }, 404, place]),
    ];
  }

  /** Parameters of a query that are separated by something else. */
  function separated({ operation, isRegistration }: Call): Case[] {
    const required = operation.parameters.filter((one) => one.in === 'query' && one.required);
    const [first, second] = required.map(({ name }) => name);
    if (first === undefined) return [];
    const amp: Case = ['&amp;', { search: `x=1&amp;${first}=x` }, 400, /x is not known: .*&, not by &amp;$/];
    if (second === undefined) return [amp];
    return [
      amp,
      ...[';', '?', ','].map((by): Case => {
        const missing = new RegExp(`${second} is missing: .*&, not by \\${by}$`);
        const odd = new RegExp(`client token, .*the character \\${by}`);
        return [by, { search: `${first}=x${by}${second}=y` }, 400, isRegistration ? missing : odd];
      }),
    ];
  }

  /** Ids that can be none, and words of empty variables, in each place of an id. */
  function malformed(call: Call): Case[] {
    const { query, filled } = requestOf(call, mine, { url: receiver.url, owner });
    const cases: Case[] = [];
    for (const { name, in: where } of call.operation.parameters.filter(
      (one) => one.required && one.name !== 'url',
    )) {
      const isAsset = name === 'platform_id';
      const forms = isAsset
        ? ['a\n', '\u0000', 'x'.repeat(257)]
        : ['x\n', ' x', '"x"', '{x}', '$x', 'x/', 'é', 'x'.repeat(129)];
      const says = /must (be (a client token|an event id|the id of a no)|not (have control|be longer))/;
      const unseen: Record<string, RegExp> = {
        'x\n': /has the character U\+000A \(line feed\)$/,
        ' x': /has the character U\+0020 \(blank\)$/,
        ['x'.repeat(129)]: /must be .*: it has 129 characters$/,
      };
      for (const form of [...forms, 'undefined', 'null', 'None']) {
        const isWord = /^[a-z]+$/i.test(form) && form.length < 10;
        if (isWord && call.isPublishing) continue;
        const attempt =
          where === 'path'
            ? {
                path: filled.replace(
                  encodeURIComponent(mine[name as keyof Subject]),
                  encodeURIComponent(form),
                ),
              }
            : {
                query: new URLSearchParams({ ...Object.fromEntries(query), [name]: form }),
              };
        const asks = isWord && name !== 'id';
        const status = asks ? (call.isRegistration ? 401 : 404) : 400;
        cases.push([
          `${name}=${form}`,
          attempt,
          status,
          asks ? /is the word .*: was a variable empty\?/ : (unseen[form] ?? says),
        ]);
      }
    }
    return cases;
  }

  for (const call of calls) {
    it(call.name, async () => {
      const takesBody = call.isJson || call.isForm;
      for (const [what, attempt, status, says] of [
        ...misplaced(call),
        ...elsewhere(call),
        ...separated(call),
        ...(call.needsToken ? malformed(call) : []),
        ...(takesBody ? broken(call) : unwanted(call)),
      ]) {
        const told = await ask(call, attempt);
        assert.equal(told.status, status, `${what}: ${JSON.stringify(told)}`);
        assert.match(told.words, says, what);
        assert.ok(!told.words.includes(owner.client_secret), what);
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

  it('has changed nothing and sent nothing', async () => {
    assert.deepEqual(await everything(h), there);
    assert.equal(receiver.received.length, received);
  });
});

/** Forms that a person or a template has put together. */
function handMade({ operation }: Call, form: Record<string, string>): Case[] {
  const type = formType;
  const { schema } = operation.requestBody?.content[type] ?? assert.fail();
  const names = Object.keys(schema.properties as object);
  const fields = names.map((name): [string, string] => [name, encodeURIComponent(form[name] ?? '')]);
  const pairs = fields.map((pair) => pair.join('='));
  const joined = (by: string, refused: string): Case => {
    return [
      by,
      { type, body: pairs.join(by) },
      400,
      new RegExp(`${names[1]} is missing: .*&, not by ${quoted(refused)}$`),
    ];
  };
  return [
    ...['& ', '&\n', '&\r\n', ' & ', '&%20', '&+'].map(
      (by): Case => [by, { type, body: pairs.join(by) }, 200, /./],
    ),
    ...[';', '; ', ',', '|', '?'].map((by) => joined(by, by.trim())),
    ...['\n', '\r\n', ' ', '%0A'].map((by) => joined(by, 'a blank or a line end')),
    joined('&amp;', '&amp;'),
    [
      'encoded as a whole',
      { type, body: encodeURIComponent(pairs.join('&')) },
      400,
      /are percent-encoded as a whole/,
    ],
    [
      'encoded twice',
      { type, body: pairs.join('&').replaceAll('client_', 'client%255F') },
      400,
      /names are percent-encoded twice/,
    ],
    ...names.flatMap((name): Case[] =>
      ['[]', '[0]', 's'].map((more) => {
        const body = pairs.join('&').replace(`${name}=`, `${encodeURIComponent(name + more)}=`);
        const says = `${name} is missing; not known: ${quoted(name + more)}${more === 's' ? '' : ' \\(no name has brackets'}`;
        return [name + more, { type, body }, 400, new RegExp(says)];
      }),
    ),
    ...(names.includes('scope')
      ? Object.entries(wrongScopes).map(([scope, says]): Case => {
          const body = `${new URLSearchParams({ ...form, scope })}`;
          return [scope, { type, body }, 400, new RegExp(`${says}$`)];
        })
      : []),
  ];
}

const wrongScopes: Record<string, string> = {
  '"push_notifications"': 'send them without quotes and brackets',
  "'push_notifications'": 'send them without quotes and brackets',
  '“push_notifications”': 'send them without quotes and brackets',
  '["push_notifications"]': 'send them without quotes and brackets',
  '{scope}': 'send them without quotes and brackets',
  'push_notifications,enrichments': 'separate scopes by spaces',
  'push_notifications+enrichments': 'separate scopes by spaces',
  'push_notifications;enrichments': 'separate scopes by spaces',
  'push_notifications%20enrichments': 'they are percent-encoded twice',
  PUSH_NOTIFICATIONS: 'they are written in lower case',
  enrichments: 'does not have all of the scopes asked for',
};

/** Forms in parts that a person or a program has put together by hand: read where their meaning is plain. */
function handMadeParts(form: Record<string, string>): Case[] {
  const partsOf = ({
    end = '\r\n',
    blank = '',
    as = 'form-data',
    fold = '',
    mark = '--b',
    close = '--b--',
  }) =>
    Object.entries(form)
      .map(([name, value]) =>
        [`${mark}${blank}`, `Content-Disposition: ${as};${fold} name="${name}"`, '', value, ''].join(end),
      )
      .join('') + close;
  const type = `${partsType}=b`;
  const odd = `${partsType} = "b" ; charset=utf-8`;
  const blank = ' \t';
  const ways: [how: Parameters<typeof partsOf>[0], type?: string][] = [
    ...[{}, { end: '\n' }, { end: '\r' }, { blank }].map((how): (typeof ways)[0] => [how]),
    ...[{ as: 'inline' }, { as: 'attachment' }, { fold: '\r\n\t' }].map((how): (typeof ways)[0] => [how]),
    [{}, odd],
    [{ end: '\n', blank, as: 'inline', fold: '\n\t' }, odd],
    [{ end: '\r', blank, as: 'attachment', fold: '\r\t' }, odd],
  ];
  const read = ways.map(([how, named = type]): Case => {
    return [JSON.stringify([how, named]), { type: named, body: partsOf(how) }, 200, /./];
  });
  const whole = partsOf({});
  const refused: [string, string, RegExp][] = [
    ['no closing boundary', partsOf({ close: '' }), /no closing boundary/],
    ['another boundary', partsOf({ mark: '--c', close: '--c--' }), /does not have the boundary that/],
    ['a boundary without --', partsOf({ mark: 'b', close: 'b--' }), /a line of -- and the boundary/],
    ['no empty line', whole.replaceAll('\r\n\r\n', '\r\n'), /no empty line between its headers and/],
    [
      'no disposition',
      whole.replaceAll('Content-Disposition', 'x'),
      /each begins with the line Content-Disp/,
    ],
    ['no name', whole.replaceAll('; name=', '; x='), /each begins with the line Content-Disposition/],
  ];
  return [...read, ...refused.map(([what, body, says]): Case => [what, { type, body }, 400, says])];
}

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
