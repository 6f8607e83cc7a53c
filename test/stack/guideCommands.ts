/** The commands for Docker that the guides tell an operator, as they stand there. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectDir } from '../../src/operator/npmStart.js';

/** As the runbook says what its short names stand for in Docker. */
const inDocker: Record<string, string> = {
  'redis-cli': 'docker compose exec redis valkey-cli',
  temporal: 'docker compose run --rm --no-deps --entrypoint temporal temporal-namespace',
};

/** Returns each command for Docker Compose in a block or in backquotes of a page, without its comment. */
export function guideCommands(page: string): string[] {
  const text = readFileSync(join(projectDir, page), 'utf8');
  const blocks = [...text.matchAll(/^```\w*\n(.*?)^```/gms)].flatMap(([, block = '']) => block.split('\n'));
  const inline = [
    // What needs a file or a cluster of the reader is not for the stack.
    ...text.matchAll(/`(docker compose|redis-cli|temporal) ((?!--cluster|workers|sweep|namespace`)[^`]+)`/g),
  ].map(([, program = '', rest]) => `${inDocker[program] ?? program} ${rest}`);
  return [...blocks, ...inline]
    .map((line) =>
      line
        .replace(/\s{2,}#.*$/, '')
        .replaceAll('\n', ' ')
        .trim(),
    )
    .filter((line) => /^docker compose /.test(line));
}

/** Returns every page of operators that has such a command, with its commands. */
export function operatorsPages(): Map<string, string[]> {
  const guides = readdirSync(join(projectDir, 'docs/guides')).map((name) => `docs/guides/${name}`);
  const pages = [
    ...guides,
    'docs/reference/operator.md',
    'docs/reference/temporal-ui.md',
    'docs/releases.md',
    'README.md',
  ];
  return new Map(pages.map((page) => [page, guideCommands(page)]));
}
