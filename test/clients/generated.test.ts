/** A client made from /openapi.json today meets a later version, which has more members and more values of each set that grows. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { openapi } from '../../src/api/reference/openapi.js';
import type { Schema } from '../../src/http/schemas.js';
import { portOf, startReceiver } from '../receiver.js';
import { forSuite, newFolder, openForSuite } from '../servers.js';
import { newCustomer, startWithWorker } from '../service.js';
import { installed, makeVenv, run } from '../tools.js';

/** The names of members that hold a value of a set that grows, and nowhere one of a closed set. */
const closed = membersOf(openapi, 'enum', new Set());
const growing = membersOf(openapi, 'x-known-values', new Set());
const open = new Set([...growing].filter((name) => !closed.has(name)));

function membersOf(schema: unknown, mark: string, found: Set<string>): Set<string> {
  if (typeof schema !== 'object' || schema === null) return found;
  const { properties = {} } = schema as { properties?: Record<string, Schema> };
  const { schemas } = openapi.components as { schemas: Record<string, Schema> };
  for (const [name, { anyOf = [], items, ...of }] of Object.entries(properties)) {
    const choices = [of, items, ...(anyOf as Schema[])] as (Schema | undefined)[];
    const all = choices.flatMap((one) => [one, schemas[String(one?.$ref).split('/').at(-1) ?? '']]);
    if (all.some((one) => one && mark in one)) found.add(name);
  }
  for (const inner of Object.values(schema)) membersOf(inner, mark, found);
  return found;
}

/** Makes an answer of a later version. */
function later(value: unknown, name = ''): unknown {
  if (Array.isArray(value)) return value.map((one) => later(one, name));
  if (typeof value === 'string') return open.has(name) ? `${value}_of_later` : value;
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([member, one]) => [member, later(one, member)]);
  return { ...Object.fromEntries(members), new_member: { of: ['later'] } };
}

describe('a generated client', function () {
  this.timeout(300_000);
  const receiver = forSuite(() => startReceiver());
  const h = openForSuite(() => startWithWorker());
  const account = forSuite(() => newCustomer(h, ['push_notifications', 'enrichments']));
  /** What a later version answers, by call. */
  const front = createServer(async (req, res) => {
    const asked = await buffer(req);
    const { authorization = '', 'content-type': type = '' } = req.headers;
    const answer = await fetch(`${h.url}${req.url}`, {
      method: req.method ?? '',
      headers: { ...(authorization && { authorization }), ...(type && { 'content-type': type }) },
      ...(asked.length > 0 && { body: asked }),
    });
    const body = JSON.stringify(later(await answer.json()));
    res.writeHead(answer.status, { 'content-type': 'application/json' }).end(body);
  });
  after(() => front.close());

  it('of Python, by openapi-python-client, reads every answer of a later version', async function () {
    if (spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 11))']).status !== 0)
      this.skip();
    receiver.answer = () => 503;
    await account.register(receiver.url);
    const requirements = join(import.meta.dirname, 'generated/requirements.txt');
    const home = await installed('generator-python', [requirements], (cwd) => makeVenv(cwd, requirements));
    const folder = await newFolder();
    const [described, made] = [join(folder, 'openapi.json'), join(folder, 'made')];
    await writeFile(described, JSON.stringify(openapi));
    const python = join(home, 'bin/python3');
    const generate = ['generate', '--path', described, '--output-path', made, '--meta', 'none'];
    await run(python, ['-m', 'openapi_python_client', ...generate]);
    const { client_id: CLIENT_ID, client_secret: CLIENT_SECRET, client_token: CLIENT_TOKEN } = account;
    const API = `http://127.0.0.1:${await portOf(front)}`;
    const env = { ...process.env, API, CLIENT_ID, CLIENT_SECRET, CLIENT_TOKEN };
    const caller = join(import.meta.dirname, 'generated/caller.py');
    const { stdout } = await run(python, [caller, made], { env });
    const answers = new Map(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as [string, Schema]),
    );
    assert.equal(answers.size, 11);
    for (const [name, answer] of answers) assert.deepEqual(answer.new_member, { of: ['later'] }, name);
    assert.equal(answers.get('refused')?.error, 'invalid_client_of_later');
    const { results } = answers.get('batch') as { results: Schema[] };
    assert.deepEqual(
      results.map(({ notification, reason, code }) => notification ?? code ?? reason),
      ['queued', 'queued', 'unknown_client_of_later', 'none'],
    );
    assert.equal(results.at(-1)?.reason, 'no_new_segments_of_later');
  });
});
