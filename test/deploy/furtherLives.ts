/** Lives with the faults that take minutes to be told, and those of what stands around the service. */
import { writeFile } from 'node:fs/promises';
import { createServer as createHttpsServer } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { Client, Connection } from '@temporalio/client';
import { resumeEndpoint, setPaused } from '../../src/redis/records/endpoint.js';
import { startGrpcProxy } from '../grpcProxy.js';
import { issueCertificate } from '../outgoing/certificates.js';
import { leadBothWays } from '../outgoing/rawReceiver.js';
import { portOf, startReceiver } from '../receiver.js';
import { callApi } from '../service.js';
import { type At, apart, during, type Life, restarted, standStill } from './life.js';
import type { Stage } from './recordLife.js';

const taskQueue = 'life:queue';
const namespace = 'default';

async function temporalOf(stage: Stage): Promise<Client> {
  const connection = await Connection.connect({ address: stage.temporalAddress });
  stage.endings.push(() => connection.close());
  return new Client({ connection });
}

/** Has a process reach Temporal by a proxy from now on. */
async function proxied(stage: Stage, one: 'a' | 'b') {
  const proxy = await startGrpcProxy(stage.temporalAddress);
  stage.endings.push(() => proxy.close());
  await restarted(stage, one, { TEMPORAL_ADDRESS: proxy.address });
  return proxy;
}

/** Starts of workflows reach Temporal late, from 60 s on. */
async function slowStarts(stage: Stage, at: At, { till, ms }: { till: number; ms: number }): Promise<void> {
  const proxy = await proxied(stage, 'a');
  await at(60);
  proxy.delaysMs.StartWorkflowExecution = ms;
  await at(till);
  proxy.delaysMs = {};
}

/** What another program has written takes the place of a key of the service. */
async function takenKey({ direct }: Stage, at: At, key: string, from: number, till: number): Promise<void> {
  await at(from);
  await direct.rename(key, 'kept').catch(() => undefined);
  await direct.lpush(key, 'x');
  await at(till);
  await direct.del(key);
  await direct.rename('kept', key).catch(() => undefined);
}

/** Another cache shares Redis, with a bound and a policy that suits it. */
async function fillAndEvict({ direct }: Stage, at: At): Promise<void> {
  const used = async () => Number(/used_memory:(\d+)/.exec(await direct.info('memory'))?.[1]);
  await at(60);
  await direct.setrange('ballast', 60_000_000, 'x');
  await direct.config('SET', 'maxmemory', String(Math.round((await used()) / 0.87)));
  await at(540);
  await direct.config('SET', 'maxmemory', '0');
  await direct.del('ballast');
  const cache = direct.pipeline();
  for (let i = 0; i < 10_000; i++) cache.set(`cache:${i}`, 'x'.repeat(500), 'EX', 600);
  await cache.exec();
  await at(600);
  await direct.config('SET', 'maxmemory-samples', '10');
  await direct.config('SET', 'maxmemory-policy', 'volatile-ttl');
  await direct.config('SET', 'maxmemory', String((await used()) - 1_000_000));
  await at(605);
  await direct.config('SET', 'maxmemory', '0');
  await direct.config('SET', 'maxmemory-policy', 'noeviction');
  await at(720);
  await direct.config('RESETSTAT');
}

/**
 * From 60 s to 570 s the namespace has a search attribute with another type: Temporal refuses each start, of catch-ups too. A client whose
 * pause ends, and who gets no further event, waits.
 */
async function refuseStarts(stage: Stage, at: At): Promise<void> {
  const { connection } = await temporalOf(stage);
  const { operatorService } = connection;
  const searchAttributes = ['ClientToken'];
  const { publisher } = stage;
  const receiver = await startReceiver();
  const client = await publisher.newClient();
  await publisher.register(client, receiver.url);
  await setPaused(publisher.db, client, true);
  await at(60);
  await operatorService.removeSearchAttributes({ namespace, searchAttributes });
  for (let tries = 0; tries < 20; tries++) {
    const added = operatorService.addSearchAttributes({ namespace, searchAttributes: { ClientToken: 3 } });
    const isAdded = await added.then(
      () => true,
      () => false,
    );
    if (isAdded) break;
    await pause(200);
  }
  await publisher.publish(client, 'paused');
  await at(75);
  await setPaused(publisher.db, client, false);
  await publisher.call('POST', 'push_notifications/resume', { client_token: client });
  await at(570);
  // A worker adds the right one within 15 seconds.
  await operatorService.removeSearchAttributes({ namespace, searchAttributes });
}

/**
 * A customer's certificate ends at 60 s, and is renewed at 600 s; what it is owed ends sooner than in reality, which takes days. Another
 * answers after 5.5 s from 60 s on, until 825 s.
 */
async function troubledReceivers(stage: Stage, at: At): Promise<void> {
  const { publisher } = stage;
  const host = '127.0.0.1';
  const root = issueCertificate({ name: 'Root', isAuthority: true });
  const file = join(stage.dir, 'root.pem');
  await writeFile(file, root.cert);
  for (const one of ['a', 'b'] as const)
    await restarted(stage, one, { TRUSTED_ROOTS_FILE: file, OWED_RETENTION_DAYS: '0.002' });
  const good = root.issue({ name: host });
  const server = createHttpsServer(good, (_, answer) => answer.end());
  const port = await portOf(server);
  stage.endings.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
  const client_token = await publisher.newClient();
  await publisher.register(client_token, `https://${host}:${port}/hook`);
  const use = (certificate: { key: string; cert: string }) => {
    server.setSecureContext(certificate);
    server.closeAllConnections();
  };
  const publishing = async () => {
    for (let second = 45; second < 840; second += 8) {
      await at(second);
      await publisher.publish(client_token, `renewed-${second}`).catch(() => undefined);
    }
  };
  const publishingMore = async () => {
    for (let second = 60; second < 825; second += 0.55) {
      await at(second);
      void publisher.publish(stage.clients[0] ?? '', `slow-${second}`).catch(() => undefined);
    }
  };
  const acting = async () => {
    await at(60);
    use(root.issue({ name: host, fromDays: -9, untilDays: -1 }));
    for (const receiver of stage.receivers.slice(0, 1)) receiver.delayMs = 5500;
    await at(600);
    use(good);
    await resumeEndpoint(publisher.db, client_token);
    await at(610);
    const since = new Date(Date.now() - 3_600_000).toISOString();
    await publisher.call('POST', 'notifications/recover', { client_token }, { since });
    await at(825);
    for (const receiver of stage.receivers.slice(0, 1)) receiver.delayMs = 0;
  };
  await Promise.all([publishing(), publishingMore(), acting()]);
}

/** Temporal behind TLS, and a process with certificates that end in a week from 60 s on, until it gets others. */
async function endingCertificates(stage: Stage, at: At): Promise<void> {
  const root = issueCertificate({ name: 'Root', isAuthority: true });
  const options = { ...root.issue({ name: '127.0.0.1' }), ALPNProtocols: ['h2'] };
  const temporalPort = Number(stage.temporalAddress.split(':')[1]);
  const front = createTlsServer(options, (inside) =>
    leadBothWays(inside, connect(temporalPort, '127.0.0.1')),
  );
  const port = await portOf(front);
  stage.endings.push(() => front.close());
  const secured = (untilDays: number) => {
    const own = root.issue({ name: 'us', untilDays });
    return restarted(stage, 'b', {
      TEMPORAL_ADDRESS: `127.0.0.1:${port}`,
      TEMPORAL_TLS_SERVER_CA_CERT_DATA: root.cert,
      TEMPORAL_TLS_CLIENT_CERT_DATA: own.cert,
      TEMPORAL_TLS_CLIENT_KEY_DATA: own.key,
    });
  };
  await secured(7 + 60 / 86_400);
  await at(240);
  await secured(30);
}

/** More and larger events than Temporal takes starts for: 200 segments of 128 characters each. */
async function largeEvents(stage: Stage, at: At, till: number): Promise<void> {
  const [client_token] = stage.clients;
  for (let batch = 0; 60 + batch * 1.1 < till; batch++) {
    await at(60 + batch * 1.1);
    const events = Array.from({ length: 35 }, (_, i) => ({
      client_token,
      platform_id: `large-${batch}-${i}`,
      segments: Array.from({ length: 200 }, (_, segment) => `${segment}`.padEnd(128, '-')),
    }));
    void callApi(stage.publisher.token, 'POST', `${stage.apiUrl}/enrichments`, { events }).catch(
      () => undefined,
    );
  }
}

export const furtherLives: Record<string, Life> = {
  'the API ends': {
    ...during(
      360,
      (stage) => stage.processOf('a').stop(),
      (stage) => stage.start('a'),
      120,
    ),
    roles: apart,
  },
  'Redis answers after 150 ms, 6 minutes': during(
    450,
    ({ proxy }) => proxy.slow({ latencyMs: 75 }),
    ({ proxy }) => proxy.slow({}),
  ),
  'Redis fills, then evicts, and a process is scraped each minute': {
    seconds: 840,
    async act(stage, at) {
      await at(50);
      stage.scrapedEach.b = 4;
      await Promise.all([
        fillAndEvict(stage, at),
        at(575).then(() => {
          stage.scrapedEach.b = 1;
        }),
      ]);
    },
  },
  'a workflow of another release, then a paused sweep': {
    seconds: 780,
    async act(stage, at) {
      const temporal = await temporalOf(stage);
      await at(60);
      const workflowId = 'of-another-release';
      const handle = await temporal.workflow.start('enrichment', { taskQueue, workflowId, args: [{}] });
      await at(240);
      await handle.terminate();
      await at(300);
      const sweep = temporal.schedule.getHandle(`sweep/${taskQueue}`);
      await sweep.pause('Ada: moving Redis until 15:00');
      await at(660);
      await sweep.unpause('Ada: done');
    },
  },
  'keys of the service that another program has taken': {
    seconds: 870,
    act: async (stage, at) => {
      const { sourceAddresses, deletedClients, counts } = stage.publisher.db.global;
      const asking = async () => {
        for (let second = 10; second < 300; second += 5) {
          await at(second);
          await fetch(`${stage.apiUrl}/source_addresses`).catch(() => undefined);
        }
      };
      await Promise.all([
        asking(),
        takenKey(stage, at, sourceAddresses, 60, 300),
        // The sweep alone reads it, after it has counted.
        takenKey(stage, at, deletedClients, 60, 480),
        takenKey(stage, at, counts, 525, 810),
      ]);
    },
  },
  'a search attribute of another type, 8 minutes': { seconds: 660, act: refuseStarts },
  'starts of workflows that take 1.4 s, 5 minutes': {
    seconds: 720,
    roles: apart,
    act: (stage, at) => slowStarts(stage, at, { till: 360, ms: 1400 }),
  },
  'starts of workflows that take 8 s, and large events': {
    seconds: 480,
    act: (stage, at) =>
      Promise.all([slowStarts(stage, at, { till: 345, ms: 8000 }), largeEvents(stage, at, 345)]),
  },
  'a worker that stands still for 1.6 s of 15': {
    seconds: 765,
    roles: apart,
    // Not while it is scraped: that begins its event loop's delay anew.
    act: (stage, at) => standStill(stage, 'b', at, { from: 65, till: 420, each: 15, ms: 1600 }),
  },
  'a process that stands still for 0.8 s of each': {
    seconds: 570,
    act: (stage, at) => standStill(stage, 'b', at, { till: 480, ms: 800 }),
  },
  'a slow receiver, and one with an expired certificate': { seconds: 930, act: troubledReceivers },
  'certificates for Temporal that end': { seconds: 330, act: endingCertificates },
};
