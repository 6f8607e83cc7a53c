/** A process that stands still between its decision to send and its first byte, and wakes when others have decided otherwise. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:https';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/npmStart.js';
import { deleteClient } from '../../src/redis/records/deletion.js';
import { setPaused } from '../../src/redis/records/endpoint.js';
import { changeRegistration } from '../../src/redis/records/registrations.js';
import { ownKey } from '../outgoing/rawReceiver.js';
import { startProxy } from '../proxy.js';
import { portOf, startReceiver, until } from '../receiver.js';
import { openForSuite } from '../servers.js';
import { callApi, repeated } from '../service.js';
import { publishAll, setScene } from './scene.js';
import { servers } from './system.js';

describe('a process that stood still', function () {
  this.timeout(180_000);
  const scene = openForSuite(() =>
    setScene({
      together: true,
      parts: [...servers, 'api', 'api2'],
      clients: 4,
      env: { TRUSTED_ROOTS_FILE: join(projectDir, 'test/outgoing/certificate/certificate.pem') },
    }),
  );

  it('during the handshake writes nothing once its lease is over: after a pause, another URL, a forget, a deletion', async () => {
    const { system, db, cast } = scene;
    const [paused = '', moved = '', forgotten = '', deleted = ''] = cast.clientTokens;
    const posts: string[] = [];
    const server = createServer(ownKey, (req, res) => {
      posts.push(String(req.url));
      res.end();
    });
    let connections = 0;
    server.on('connection', () => connections++);
    const proxy = await startProxy(`https://127.0.0.1:${await portOf(server)}`);
    const elsewhere = await startReceiver();
    for (const client of cast.clientTokens)
      await changeRegistration(db, client, `https://127.0.0.1:${proxy.port}/${client}`);
    proxy.hang();
    const events = cast.clientTokens.map((client_token) => ({
      client_token,
      platform_id: 'video',
      event_id: 'an-1',
      segments: ['x'],
    }));
    const { status } = await repeated(() => publishAll(scene, events));
    assert.equal(status, 202);
    await until('every handshake has begun', () => connections >= events.length);

    const pid = system.pidOf('api') as number;
    process.kill(pid, 'SIGSTOP');
    try {
      await setPaused(db, paused, true);
      await changeRegistration(db, moved, elsewhere.url);
      const asset = `${system.apiUrlOf('api2')}/assets/video?client_token=${forgotten}`;
      assert.equal((await callApi(cast.platformToken, 'DELETE', asset)).status, 200);
      await deleteClient(db, deleted);
      proxy.release();
      await until(
        'the lease is over, and the other process sends',
        () => elsewhere.received.length > 0,
        90_000,
      );
    } finally {
      process.kill(pid, 'SIGCONT');
    }

    const metric = async (name: string) => {
      const answer = await fetch(`${system.adminUrlOf('api')}/metrics`).catch(() => undefined);
      const text = (await answer?.text()) ?? '';
      return Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${name} `))
          ?.slice(name.length),
      );
    };
    await until(
      'no attempt is under way',
      async () => system.brokenOff.length > 0 || (await metric('asset_update_posts_in_flight')) === 0,
    );
    assert.deepEqual(system.brokenOff, []);
    assert.deepEqual(posts, []);
    assert.equal(await metric('asset_update_own_failures_total{cause="stalled"}'), events.length);
    await setPaused(db, paused, false);
    await until('what was owed follows', () => posts.length > 0, 60_000);
    assert.deepEqual(posts, [`/${paused}`]);
    await Promise.all([proxy.close(), elsewhere.close(), once(server.close(), 'close')]);
  });
});
