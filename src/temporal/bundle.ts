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
    // Without columns: those of the generated entry point depend on how long the folder's name is.
    webpackConfigHook: (config) => ({ ...config, devtool: 'inline-cheap-module-source-map' }),
    logger: { trace() {}, debug() {}, info() {}, log() {}, warn: console.warn, error: console.error },
  });
  await writeFile(workflowBundlePath(), withoutFolder(code));
}

/** The map names files by their whole path, and itself by a hash of them: the same bytes wherever it is built. */
function withoutFolder(code: string): string {
  const folder = `${join(import.meta.dirname, '../../..')}/`;
  return code.replace(/(?<=sourceMappingURL=data:application\/json;charset=utf-8;base64,)\S+/, (map) => {
    const text = Buffer.from(map, 'base64').toString().replaceAll(folder, '');
    return Buffer.from(text.replace(/workflow-bundle-[0-9a-f]+/, 'workflow-bundle')).toString('base64');
  });
}
