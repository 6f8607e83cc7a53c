import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { readConfig } from '../../src/config.js';
import { connect, createTemporalClient } from '../../src/temporal/connection.js';

describe('A Temporal that accepts connections and answers nothing', () => {
  it('counts as away after 10 s', async () => {
    const frozen = createServer((socket) => socket.on('error', () => {})).listen(0, '127.0.0.1');
    const { port } = await new Promise<{ port: number }>((resolve) =>
      frozen.once('listening', () => resolve(frozen.address() as { port: number })),
    );
    const config = readConfig({ TEMPORAL_ADDRESS: `127.0.0.1:${port}` });
    const connection = connect(config);
    const errors: unknown[] = [];
    const client = createTemporalClient(connection, config, (call, _milliseconds, error) =>
      errors.push([call, error]),
    );
    try {
      await assert.rejects(client.workflow.start('enrichment', { workflowId: 'a', taskQueue: 'q' }));
    } finally {
      frozen.close();
      await connection.close();
    }
    assert.deepEqual(errors, [['start', 'away']]);
  }).timeout(60_000);
});
