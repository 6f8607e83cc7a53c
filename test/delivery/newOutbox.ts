import assert from 'node:assert/strict';
import type { Client } from '@temporalio/client';
import { Outbox } from '../../src/delivery/outbox.js';
import { createLogger } from '../../src/log.js';
import { uniquePrefix } from '../servers.js';

/** By default no worker has its queue: the workflows stay as they were started. */
export const newOutbox = (temporal: Client, given: Partial<Outbox['deps']>) =>
  new Outbox({
    temporal,
    taskQueue: uniquePrefix(),
    log: createLogger('silent', 'test'),
    eager: () => false,
    workflowsPerSecond: 1000,
    processes: () => 1,
    delivers: false,
    onMoved: () => assert.fail(),
    searchAttributeBytes: 2048,
    metrics: { started() {}, withoutWorkflow: () => assert.fail() },
    minutes: { count() {} },
    ...given,
  });
