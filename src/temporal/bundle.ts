/** Bundles the workflow code at build time (`node dist/src/temporal/bundle.js`). */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode } from '@temporalio/worker';

/** Returns the path of the bundle: beside the compiled code, even for tests that run from source. */
export function workflowBundlePath(): string {
  const here = import.meta.dirname;
  const inDist = here.endsWith(join('dist', 'src', 'temporal'));
  return inDist ? join(here, '../../workflow-bundle.js') : join(here, '../../dist/workflow-bundle.js');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(import.meta.dirname, '../../workflows/index.js'),
    logger: { trace() {}, debug() {}, info() {}, log() {}, warn: console.warn, error: console.error },
  });
  await writeFile(workflowBundlePath(), code);
}
