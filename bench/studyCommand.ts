import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { projectDir } from '../src/embedded/projectDir.js';
import { describeMachine } from './machine.js';
import { studies } from './studies/all.js';
import { tableMarkdown } from './studies/markdown.js';
import type { Study } from './studies/study.js';
import { startTheatre, type Theatre, type TheatreOptions } from './theatre.js';

/** `npm run bench -- study NAME`: one question each, with its sizes as options. */
export function studyCommand(): Command {
  const command = new Command('study').description('Answers one question about the service.');
  for (const study of studies) command.addCommand(commandOf(study));
  return command;
}

function commandOf(study: Study): Command {
  const command = new Command(study.name)
    .description(study.about)
    .option('--out <folder>', 'for the tables (study.json, study.md) and pictures');
  for (const [name, [value, about]] of Object.entries(study.sizes)) {
    command.option(`--${kebab(name)} <n>`, about, number, value);
  }
  return command.action(async (options: Record<string, number> & { out?: string }) => {
    await run(study, options, options.out);
  });
}

async function run(study: Study, sizes: Record<string, number>, folder?: string): Promise<void> {
  const startedAt = new Date().toISOString();
  const out = folder ?? join(projectDir, 'bench/results', startedAt.replaceAll(/[:.]/g, '-'));
  await mkdir(out, { recursive: true });
  const machine = describeMachine();
  const opened: Theatre[] = [];
  const stop = async () => {
    for (const theatre of opened.splice(0).reverse()) await theatre.stop();
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void stop().finally(() => process.exit(130)));
  }
  try {
    const openBeside = async (options: Partial<TheatreOptions> = {}) => {
      const theatre = await startTheatre({ split: true, givenPids: {}, receiverLatencyMs: 0, ...options });
      opened.push(theatre);
      return theatre;
    };
    const findings = await study.run(sizes, {
      open: async (options) => {
        await stop();
        return await openBeside(options);
      },
      openBeside,
      say: (line) => process.stderr.write(`${line}\n`),
    });
    const command = ['npm run bench --', ...process.argv.slice(2)].join(' ');
    const head = `\`${command}\`, ${startedAt}: ${machine.cores} cores (${machine.cpu}), ${machine.memoryGb} GB, Node ${machine.node}; load average of the minute before ${machine.loadBefore.toFixed(2)}.`;
    const markdown = [head, ...findings.tables.map(tableMarkdown)].join('\n\n');
    const json = { study: study.name, startedAt, command, machine, sizes, tables: findings.tables };
    await writeFile(join(out, 'study.json'), `${JSON.stringify(json, null, 1)}\n`);
    await writeFile(join(out, 'study.md'), `${markdown}\n`);
    for (const [name, svg] of findings.pictures ?? []) await writeFile(join(out, name), svg);
    console.log(`${markdown}\n\nResults: ${out}`);
  } finally {
    await stop();
  }
}

function kebab(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

function number(text: string): number {
  const value = Number(text);
  if (!(value >= 0) || text === '') throw new InvalidArgumentError('must be a number, 0 or more');
  return value;
}
