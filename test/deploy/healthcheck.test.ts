import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

describe('deploy/healthcheck.mjs', () => {
  let server: Server;
  let url: string;
  let status = 200;

  before(async () => {
    server = createServer((_, response) => {
      response.writeHead(status, { location: '/elsewhere' }).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/readyz`;
  });

  after(() => {
    server.close();
    server.closeAllConnections();
  });

  it('ends with 0 on a 2xx', async () => {
    status = 200;
    assert.equal(await exitCode(url), 0);
  });

  for (const failing of [503, 302, 404]) {
    it(`ends with 1 on a ${failing}`, async () => {
      status = failing;
      assert.equal(await exitCode(url), 1);
    });
  }

  it('ends with 1 if nothing listens', async () => {
    assert.equal(await exitCode('http://127.0.0.1:9/readyz'), 1);
  });
});

async function exitCode(url: string): Promise<number> {
  const child = spawn(process.execPath, ['deploy/healthcheck.mjs', url], { stdio: 'ignore' });
  const [code] = (await once(child, 'exit')) as [number];
  return code;
}
