import assert from 'node:assert/strict';
import { get } from 'node:http';
import { setDisabled } from '../../src/redis/records/accounts.js';
import { newCustomer } from '../api/runningApi.js';
import { until } from '../delivery/harness.js';
import { type Scene, startScene } from './scene.js';
import { signedIn, type Visitor } from './visitor.js';

describe('console: announces changes', () => {
  let scene: Scene;
  beforeEach(async () => {
    scene = await startScene();
  });
  afterEach(() => scene.close());

  interface Heard {
    status: number | undefined;
    text: string;
    hasEnded: boolean;
    close(): void;
  }

  /** A stream, and what it has said so far. */
  function listen(visitor: Visitor, path = `${scene.site}/events`): Promise<Heard> {
    return new Promise((resolve, reject) => {
      const asked = get(visitor.url + path, { headers: { cookie: visitor.cookie } }, (answer) => {
        const { statusCode: status } = answer;
        const heard: Heard = { status, text: '', hasEnded: false, close: () => asked.destroy() };
        answer.setEncoding('utf8').on('data', (chunk) => {
          heard.text += chunk;
        });
        answer
          .on('error', () => undefined)
          .on('close', () => {
            heard.hasEnded = true;
          });
        resolve(heard);
      });
      asked.on('error', reject);
    });
  }
  const changes = (heard: { text: string }) => heard.text.split('event: changed').length - 1;

  it('announces a change of a site to each viewer of this site, and to no viewer of another', async () => {
    const other = await newCustomer(scene.api);
    const watching = await Promise.all([listen(scene.visitor), listen(scene.visitor)]);
    await until('the first look', () => watching.every((heard) => changes(heard) === 1));
    await scene.register();
    await until('it is registered', () => watching.every((heard) => changes(heard) >= 2));
    const before = watching.map(changes);
    await scene.harness.registerUrl(other.client_token, scene.receiver.url);
    await scene.publish('vid-1', 'delivered');
    await until('it is delivered', () => watching.every((heard, i) => changes(heard) > (before[i] ?? 0)));
  });

  it('ends the stream with the session', async () => {
    const heard = await listen(scene.visitor);
    await setDisabled(scene.harness.db, scene.customer.account_id, true);
    await until('it has ended', () => heard.hasEnded);
    assert.match(heard.text, /event: ended\ndata:\n\n$/);
    assert.equal((await listen(scene.visitor)).status, 303);
  });

  it('opens at most 12 streams for a session; closing one makes room', async () => {
    const open = await Promise.all(Array.from({ length: 12 }, () => listen(scene.visitor)));
    assert.deepEqual([...new Set(open.map(({ status }) => status))], [200]);
    assert.equal((await listen(scene.visitor)).status, 429);
    const another = await signedIn(scene.api, scene.token);
    // Without a body there is no stream: none of these takes a place for longer than its answer.
    for (let i = 0; i < 12; i++) {
      const head = { method: 'HEAD', headers: { cookie: another.cookie } };
      assert.equal((await fetch(`${another.url}${scene.site}/events`, head)).status, 200);
    }
    assert.equal((await listen(another)).status, 200);
    open[0]?.close();
    await until('there is room', async () => (await listen(scene.visitor)).status === 200);
  });

  it('answers 404 for another account’s site, and ends all streams when the service closes', async () => {
    const other = await newCustomer(scene.api);
    const path = `/console/sites/${other.client_token}/events`;
    assert.equal((await listen(scene.visitor, path)).status, 404);
    const heard = await listen(scene.visitor);
    await scene.api.close();
    await until('it has ended', () => heard.hasEnded);
    scene.api.close = async () => undefined;
  });
});
