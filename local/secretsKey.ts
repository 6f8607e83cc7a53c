import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Returns the key that encrypts signing secrets, in the form of `SECRETS_KEY`; made once per data folder. */
export function secretsKey(dir: string): string {
  const file = join(dir, 'secrets-key');
  if (!existsSync(file)) {
    const draft = `${file}.${process.pid}`;
    writeFileSync(draft, `k1:${randomBytes(32).toString('base64')}\n`, { mode: 0o600 });
    linkSync(draft, file);
    rmSync(draft);
  }
  return readFileSync(file, 'utf8').trim();
}
