import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { Connection } from '@temporalio/client';
import { servers, uniquePrefix } from '../servers.js';

const run = promisify(execFile);

describe('deploy/temporal/namespace.sh', () => {
  let bin: string;
  let connection: Connection;

  before(async () => {
    bin = await mkdtemp(join(tmpdir(), 'asset-update-bin-'));
    await symlink(servers().temporalBinary, join(bin, 'temporal'));
    connection = await Connection.connect({ address: servers().temporalAddress });
  });

  after(async () => {
    await connection.close();
    await rm(bin, { recursive: true, force: true });
  });

  it('creates the namespace with the search attributes, and leaves them alone the next time', async () => {
    const namespace = `${uniquePrefix()}deploy`;
    for (const retention of ['168h', '24h']) {
      await run('sh', ['deploy/temporal/namespace.sh'], {
        env: {
          PATH: `${bin}${delimiter}${process.env.PATH ?? ''}`,
          TEMPORAL_ADDRESS: servers().temporalAddress,
          TEMPORAL_NAMESPACE: namespace,
          NAMESPACE_RETENTION: retention,
        },
      });
      const { config } = await connection.workflowService.describeNamespace({ namespace });
      assert.equal(Number(config?.workflowExecutionRetentionTtl?.seconds), 168 * 3600);
      const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
      assert.deepEqual(customAttributes, {
        ClientToken: keywordList,
        PlatformId: keywordList,
        EventId: keywordList,
        NotificationState: keyword,
        HttpStatus: int,
      });
    }
  });
});

/** Numbers of `temporal.api.enums.v1.IndexedValueType`. */
const keyword = 2;
const int = 3;
const keywordList = 7;
