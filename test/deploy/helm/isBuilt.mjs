/**
 * Whether Helm and kubeconform were built for this clone (`npm run test:nightly` does, in some minutes of CPU). As a program:
 * exit status 0 where they were, for test/skips.json.
 */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const cache = join(import.meta.dirname, '../../../.cache');

export function isBuilt() {
  if (process.env.BUILD_HELM) return true;
  const there = existsSync(cache) ? readdirSync(cache) : [];
  return ['helm-v', 'kubeconform-v'].every((name) => there.some((folder) => folder.startsWith(name)));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exit(isBuilt() ? 0 : 1);
