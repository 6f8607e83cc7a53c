import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { z } from 'zod';
import { compareFact, exportFacts, type Fact, importFact } from '../store/transfer.js';
import type { Operator } from './operator.js';
import { Refused } from './refused.js';

const fields = z.record(z.string(), z.string());
const factSchema: z.ZodType<Fact> = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('account'), account_id: z.string().min(1), fields }),
  z.strictObject({
    type: z.literal('client'),
    client_token: z.string().min(1),
    fields,
    signing_secrets: fields,
  }),
  z.strictObject({
    type: z.literal('registration'),
    client_token: z.string().min(1),
    fields,
    endpoint: fields,
  }),
]);

export function addExportCommands(program: Command, operator: Operator): void {
  program
    .command('export')
    .description('accounts, clients, registrations and secrets (as they are stored) as JSON lines')
    .action(async () => {
      const facts: Fact[] = [];
      for await (const fact of exportFacts(await operator.db())) facts.push(fact);
      operator.answer(facts, () => facts.map((fact) => JSON.stringify(fact)).join('\n'));
    });

  program
    .command('import')
    .description('takes in what export wrote, from a file or from standard input')
    .argument('[file]', 'JSON lines; "-" is standard input', '-')
    .addHelpText(
      'after',
      '\nNothing is written unless all of it can be. What is there already in the same form is left alone;\n' +
        'what is there in another form is refused. Signing secrets need the SECRETS_KEY they were stored with.',
    )
    .action(async (file: string) => {
      const facts = await readFacts(file);
      const db = await operator.db();
      const missing: Fact[] = [];
      const taken: string[] = [];
      for (const fact of facts) {
        const found = await compareFact(db, fact);
        if (found === 'different') taken.push(nameOf(fact));
        if (found === 'new') missing.push(fact);
      }
      if (taken.length > 0) {
        throw new Refused(`Nothing was imported. There already, in another form: ${taken.join(', ')}`);
      }
      for (const fact of missing) {
        await importFact(db, fact);
        await operator.record({ what: 'import', target: nameOf(fact), before: null, after: fact.type });
      }
      const count = (type: Fact['type']) => missing.filter((fact) => fact.type === type).length;
      const imported = {
        accounts: count('account'),
        clients: count('client'),
        registrations: count('registration'),
        unchanged: facts.length - missing.length,
      };
      operator.answer(
        imported,
        () =>
          `Imported ${imported.accounts} accounts, ${imported.clients} clients, ` +
          `${imported.registrations} registrations; ${imported.unchanged} were there already.`,
      );
    });
}

async function readFacts(file: string): Promise<Fact[]> {
  const input = file === '-' ? process.stdin : createReadStream(file);
  const facts: Fact[] = [];
  let number = 0;
  try {
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      number++;
      if (line.trim() !== '') facts.push(readFact(line, number));
    }
  } catch (err) {
    if (err instanceof Error && 'syscall' in err) throw new Refused(`${file} cannot be read: ${err.message}`);
    throw err;
  }
  return facts;
}

/** A wrong line is named by its number, never shown: it may hold what is secret. */
function readFact(line: string, number: number): Fact {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new Refused(`Nothing was imported. Line ${number} is not JSON.`);
  }
  const parsed = factSchema.safeParse(value);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    throw new Refused(
      `Nothing was imported. Line ${number}: ${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`,
    );
  }
  return parsed.data;
}

function nameOf(fact: Fact): string {
  switch (fact.type) {
    case 'account':
      return fact.account_id;
    case 'client':
      return fact.client_token;
    case 'registration':
      return fact.client_token;
  }
}
