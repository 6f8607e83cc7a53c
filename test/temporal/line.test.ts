import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect as connectTcp, createServer } from 'node:net';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { createServer as createTlsServer } from 'node:tls';
import type { Connection } from '@temporalio/client';
import type { NativeConnection } from '@temporalio/worker';
import { pino } from 'pino';
import { readConfig } from '../../src/config.js';
import { connect, connectNative } from '../../src/temporal/connection.js';
import { type Line, openLine } from '../../src/temporal/line.js';
import { type Proxy as BadLine, startProxy } from '../proxy.js';
import { servers } from '../servers.js';

describe('The line to Temporal', () => {
  let badLine: BadLine;
  const ends: { connection: Connection | NativeConnection; line: Line }[] = [];

  before(async () => {
    badLine = await startProxy(`tcp://${servers().temporalAddress}`);
  });
  after(async () => {
    for (const { connection, line } of ends) {
      await connection.close();
      await line.close();
    }
    await badLine?.close();
  });

  async function open(
    how: typeof connect | typeof connectNative,
    address: string,
    env: Record<string, string> = {},
  ) {
    const said: string[] = [];
    const write = (chunk: Buffer, _: string, done: () => void) => {
      said.push(chunk.toString());
      done();
    };
    const log = pino({ level: 'warn' }, new Writable({ write }));
    const line = await openLine(address, log);
    const connection = await how(readConfig({ TEMPORAL_ADDRESS: address, ...env }), log, line);
    ends.push({ connection, line });
    const answers = () =>
      connection
        .withDeadline(Date.now() + 500, () => connection.workflowService.getSystemInfo({}))
        .then(
          () => true,
          () => false,
        );
    return { said, answers };
  }

  it("that died without a word is made anew, a worker's and an API's; one that only idles is left alone", async function () {
    // The SDK's own pings take 45 s.
    this.timeout(30_000);
    const idle = [
      await open(connectNative, servers().temporalAddress),
      await open(connect, servers().temporalAddress),
    ];
    const worker = await open(connectNative, `127.0.0.1:${badLine.port}`);
    const api = await open(connect, `127.0.0.1:${badLine.port}`);
    for (const one of [...idle, worker, api]) assert.ok(await one.answers());

    badLine.forget();
    badLine.reach();
    for (const one of [worker, api]) assert.ok(!(await one.answers()));
    for (const one of [worker, api]) {
      while (!(await one.answers()));
      assert.equal(one.said.length, 1, one.said.join(''));
    }
    for (const one of idle) assert.deepEqual(one.said, []);
  });

  it('is not made for somebody who has stopped waiting for it', async () => {
    const temporal = createServer();
    const listen = (port: number) =>
      new Promise<void>((resolve) => temporal.listen(port, '127.0.0.1', resolve));
    await listen(0);
    const { port } = temporal.address() as AddressInfo;
    await new Promise((resolve) => temporal.close(resolve));
    let made = 0;
    temporal.on('connection', (socket) => {
      made++;
      socket.pipe(socket);
    });

    const line = await openLine(`127.0.0.1:${port}`, pino({ level: 'silent' }));
    line.watch(async () => undefined);
    const impatient = connectTcp(line.port);
    await once(impatient, 'connect');
    const patient = connectTcp(line.port);
    await once(patient, 'connect');
    impatient.destroy();
    await listen(port);
    // It is let through in the order of the tries, the one that has left before it.
    patient.write('here');
    await once(patient, 'data');
    assert.equal(made, 1);
    patient.destroy();
    await line.close();
    await new Promise((resolve) => temporal.close(resolve));
  });

  it('carries TLS as it is: the certificate is asked of Temporal by its name', async () => {
    const authority = join(import.meta.dirname, 'certificate/certificate.pem');
    const [cert, key] = [readFileSync(authority), readFileSync(join(authority, '../key.pem'))];
    const names: string[] = [];
    const to = new URL(`tcp://${servers().temporalAddress}`);
    const server = createTlsServer({ key, cert, ALPNProtocols: ['h2'] }, (socket) => {
      names.push(String(socket.servername));
      const temporal = connectTcp(Number(to.port), to.hostname, () => socket.pipe(temporal).pipe(socket));
      for (const one of [socket, temporal]) one.on('error', () => socket.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = `localhost:${(server.address() as AddressInfo).port}`;
    for (const how of [connectNative, connect]) {
      const { answers } = await open(how, address, { TEMPORAL_TLS_SERVER_CA_CERT_PATH: authority });
      assert.ok(await answers());
    }
    assert.deepEqual(names, ['localhost', 'localhost']);
    server.close();
  });
});
