import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { isClientToken, isNoticesClient } from '../../ids.js';
import type { Db } from '../../redis/connection/db.js';
import { createSecretBox, type SecretBox, SecretUnreadable } from '../../redis/records/secretBox.js';
import { compareFact, exportFacts, type Fact, hasOwner, importFact } from '../../redis/records/transfer.js';
import type { Operator } from '../operator.js';
import { Refused } from '../refused.js';
import { amount } from '../terminal/amount.js';
import { counted, withProgress } from '../terminal/progress.js';

const fields = z.record(z.string(), z.string());
const accountId = z.string().regex(/^acc_[A-Za-z0-9_-]{1,64}$/, 'is not an account id');
const clientToken = z
  .string()
  .refine((token) => isClientToken(token) || isNoticesClient(token), 'is not a client token');
const factSchema: z.ZodType<Fact | End> = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('account'), account_id: accountId, fields }),
  z.strictObject({ type: z.literal('client'), client_token: clientToken, fields, signing_secrets: fields }),
  z.strictObject({ type: z.literal('registration'), client_token: clientToken, fields, endpoint: fields }),
  z.strictObject({ type: z.literal('end'), layout: z.number(), lines: z.number() }),
]);

/** The last line, which shows that a file is complete. */
interface End {
  type: 'end';
  /** Layout of the keys in Redis. */
  layout: number;
  /** The number of lines before this one. */
  lines: number;
}

/** Layout of the lines of a file; the keys in Redis have their own layout. */
const fileLayout = 1;

export async function exportRecords(operator: Operator): Promise<void> {
  const lines: (Fact | End)[] = [];
  // Before a line is printed: the output may be cut off at any time, and contains every secret.
  await operator.record({ what: 'export', target: 'everything', before: null, after: null });
  const db = await operator.db();
  await withProgress(
    () => `Exporting: ${counted(lines.length)} lines`,
    async () => {
      for await (const fact of exportFacts(db)) lines.push(fact);
    },
  );
  lines.push({ type: 'end', layout: fileLayout, lines: lines.length });
  operator.answer(lines, () => lines.map((line) => JSON.stringify(line)).join('\n'));
}

export async function importRecords(operator: Operator, file: string): Promise<void> {
  const facts = await readFacts(file);
  const db = await operator.db();
  const box = createSecretBox(operator.config().SECRETS_KEY);
  await overEach('Checking', facts, (each) => checkFacts(db, facts, each, box));
  const written = await overEach('Importing', facts, (each) => write(operator, db, each));
  // Workflows that kept running may have claimed events again while there was no registration.
  const registrations = facts.filter((fact) => fact.type === 'registration');
  await overEach('Waking', registrations, async (each) => {
    for (const fact of each) await operator.wake(fact.client_token);
  });
  const count = (type: Fact['type']) => written.filter((fact) => fact.type === type).length;
  const imported = {
    accounts: count('account'),
    clients: count('client'),
    registrations: count('registration'),
    unchanged: facts.length - written.length,
  };
  operator.answer(
    imported,
    () =>
      `Imported ${amount(imported.accounts, 'account')}, ${amount(imported.clients, 'client')}, ` +
      `${amount(imported.registrations, 'registration')}; ` +
      `${amount(imported.unchanged, 'line')} existed already.`,
  );
}

/** Writes all of them, which also completes an interrupted import. @returns those that did not exist */
async function write(operator: Operator, db: Db, facts: Iterable<Fact>): Promise<Fact[]> {
  const written: Fact[] = [];
  for (const fact of facts) {
    const outcome = await importFact(db, fact);
    if (outcome === 'different') throw changedMeanwhile(fact, written);
    if (outcome === 'same') continue;
    written.push(fact);
    await operator.record({ what: 'import', target: nameOf(fact), before: null, after: fact.type });
  }
  return written;
}

/** Iterates over a list and shows the progress. */
function overEach<Item, T>(
  what: string,
  items: readonly Item[],
  work: (each: Iterable<Item>) => Promise<T>,
): Promise<T> {
  let done = 0;
  function* each() {
    for (const item of items) {
      yield item;
      done++;
    }
  }
  return withProgress(
    () => `${what}: ${counted(done)} of ${counted(items.length)}`,
    () => work(each()),
  );
}

function changedMeanwhile(fact: Fact, written: readonly Fact[]): Refused {
  return new Refused(
    `The ${fact.type} ${nameOf(fact)} was created or changed during the import, and is left as it is. ` +
      `${written.length} lines before it were imported.`,
  );
}

/** @param each the same facts, one by one. @throws Refused unless all of them can be imported */
async function checkFacts(
  db: Db,
  facts: readonly Fact[],
  each: Iterable<Fact>,
  box: SecretBox,
): Promise<void> {
  const problems = { taken: [] as string[], alone: [] as string[], unreadable: [] as string[] };
  const given = new Set(facts.map((fact) => `${fact.type} ${nameOf(fact)}`));
  for (const fact of each) {
    if ((await compareFact(db, fact)) === 'different') problems.taken.push(nameOf(fact));
    if (!given.has(ownerOf(fact)) && !(await hasOwner(db, fact))) problems.alone.push(nameOf(fact));
    if ('signing_secrets' in fact && !canRead(box, fact.signing_secrets))
      problems.unreadable.push(nameOf(fact));
  }
  refuseIf(problems.taken, 'These already exist in another form');
  refuseIf(problems.alone, 'Neither the file nor this service has their account or client');
  refuseIf(problems.unreadable, 'SECRETS_KEY has no key for the signing secrets of');
}

function refuseIf(names: readonly string[], why: string): void {
  if (names.length > 0) throw new Refused(`Nothing was imported. ${why}: ${names.join(', ')}`);
}

function canRead(box: SecretBox, secrets: Readonly<Record<string, string>>): boolean {
  try {
    for (const sealed of Object.values(secrets)) box.open(sealed);
    return true;
  } catch (err) {
    if (err instanceof SecretUnreadable) return false;
    throw err;
  }
}

async function readFacts(file: string): Promise<Fact[]> {
  const input = file === '-' ? process.stdin : createReadStream(file);
  const lines: (Fact | End)[] = [];
  let number = 0;
  try {
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      number++;
      if (line.trim() !== '') lines.push(readLine(line, number));
    }
  } catch (err) {
    if (err instanceof Error && 'syscall' in err) throw new Refused(`${file} cannot be read: ${err.message}`);
    throw err;
  }
  return wholeFile(lines);
}

function wholeFile(lines: readonly (Fact | End)[]): Fact[] {
  const facts = lines.filter((line) => line.type !== 'end');
  const end = lines.at(-1);
  if (end?.type !== 'end' || end.lines !== facts.length || facts.length !== lines.length - 1) {
    throw new Refused('Nothing was imported. The file is incomplete: its last line is missing.');
  }
  if (end.layout !== fileLayout) {
    throw new Refused(
      `Nothing was imported. The file comes from a release with layout ${end.layout}; this release has ${fileLayout}.`,
    );
  }
  const seen = new Set<string>();
  const names = facts.map((fact) => `${fact.type} ${nameOf(fact)}`);
  refuseIf(
    names.filter((name) => seen.size === seen.add(name).size),
    'More than once in the file',
  );
  return facts;
}

/** A wrong line is named by its number and never shown: it may hold a secret. */
function readLine(line: string, number: number): Fact | End {
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
  return 'account_id' in fact ? fact.account_id : fact.client_token;
}

/** Named as in the file; an account has no owner. */
function ownerOf(fact: Fact): string {
  switch (fact.type) {
    case 'account':
      return `account ${fact.account_id}`;
    case 'client':
      return `account ${fact.fields.account_id ?? ''}`;
    case 'registration':
      return `client ${fact.client_token}`;
  }
}
