import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import { zeroOrMore } from './optionValues.js';
import { beginRunRecord, resultsFolder, runRecordLine } from './runRecord.js';
import { stopList } from './stopList.js';
import { studies } from './studies/all.js';
import { tableMarkdown } from './studies/markdown.js';
import type { Study } from './studies/study.js';
import { startTheatre, type TheatreOptions } from './theatre.js';

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
    command.option(`--${kebab(name)} <n>`, about, zeroOrMore, value);
  }
  return command.action(async (options: Record<string, number> & { out?: string }) => {
    await run(study, options, options.out);
  });
}

async function run(study: Study, sizes: Record<string, number>, folder?: string): Promise<void> {
  const record = beginRunRecord();
  const out = await resultsFolder(record, folder);
  const opened = stopList();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void opened.stop().finally(() => process.exit(130)));
  }
  try {
    const openBeside = async (options: Partial<TheatreOptions> = {}) => {
      const theatre = await startTheatre({ split: true, givenPids: {}, receiverLatencyMs: 0, ...options });
      opened.add(theatre);
      return theatre;
    };
    const findings = await study.run(sizes, {
      open: async (options) => {
        await opened.stop();
        return await openBeside(options);
      },
      openBeside,
      say: (line) => process.stderr.write(`${line}\n`),
    });
    const markdown = [runRecordLine(record), ...findings.tables.map(tableMarkdown)].join('\n\n');
    const json = { study: study.name, ...record, sizes, tables: findings.tables };
    await writeFile(join(out, 'study.json'), `${JSON.stringify(json, null, 1)}\n`);
    await writeFile(join(out, 'study.md'), `${markdown}\n`);
    for (const [name, svg] of findings.pictures ?? []) await writeFile(join(out, name), svg);
    console.log(`${markdown}\n\nResults: ${out}`);
  } finally {
    await opened.stop();
  }
}

function kebab(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}
