/** Bodies of forms as strangers send them: the recorded ones, changed at random and filled up to the cap. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { charsetOf, formAtMostBytes, parseMultipart, parseUrlencoded } from '../../src/api/steps/form.js';

export interface FormBody {
  contentType: string;
  body: Buffer;
}

/** @returns of so many mutated forms the ten that took most CPU */
export async function slowestForms(count: number): Promise<FormBody[]> {
  const random = randomFrom(1);
  const recorded = recordedForms();
  const timed: { form: FormBody; ms: number }[] = [];
  for (let i = 0; i < count; i++) {
    const form = mutated(recorded, random);
    timed.push({ form, ms: await cpuMsOf(form) });
  }
  timed.sort((a, b) => b.ms - a.ms);
  return timed.slice(0, 10).map(({ form }) => form);
}

/** @returns the CPU time of this process for one parse, ms; of one that the parser refuses as well */
export async function cpuMsOf({ contentType, body }: FormBody): Promise<number> {
  const before = process.cpuUsage();
  try {
    if (contentType.startsWith('multipart')) await parseMultipart(body, contentType);
    else parseUrlencoded(body, charsetOf(contentType));
  } catch {
    // Refused is as good as read.
  }
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

function recordedForms(): FormBody[] {
  const folder = join(import.meta.dirname, 'recorded');
  return readdirSync(folder)
    .filter((name) => name.endsWith('.http'))
    .map((name) => {
      const [head = '', ...rest] = readFileSync(join(folder, name), 'latin1').split('\r\n\r\n');
      const contentType = /^content-type: *(.*)$/im.exec(head)?.[1]?.trim() ?? '';
      return { contentType, body: Buffer.from(rest.join('\r\n\r\n'), 'latin1') };
    });
}

const pieces = ['\r', '\n', '\r\n', '--', '"', ';', ':', '=', '&', '%41', '%', '[', ' ', '\t', '\u0000', 'ÿ'];

/** Cuts, copies and repeats pieces of a recorded body, then fills it up to the cap with one piece at one place. */
function mutated(recorded: readonly FormBody[], random: (below: number) => number): FormBody {
  const { contentType, body } = recorded[random(recorded.length)] as FormBody;
  let text = body.toString('latin1');
  const boundary = /boundary="?([^";]+)/i.exec(contentType)?.[1] ?? 'b';
  const known = [...pieces, `\r\n--${boundary}`, `--${boundary}\r\n`, boundary, '; name=a', 'a: b\r\n'];
  const pieceOf = (): string => {
    const at = random(text.length);
    return random(2) === 0 ? (known[random(known.length)] ?? '') : text.slice(at, at + 1 + random(60));
  };
  for (let edits = random(6); edits > 0; edits--) {
    const at = random(text.length);
    const cut = random(3) === 0 ? random(40) : 0;
    text = text.slice(0, at) + pieceOf().repeat(random(20)) + text.slice(at + cut);
  }
  const at = random(text.length);
  const filler = pieceOf() || 'x';
  const room = Math.max(0, formAtMostBytes - text.length);
  const filled = text.slice(0, at) + filler.repeat(Math.floor(room / filler.length)) + text.slice(at);
  return { contentType, body: Buffer.from(filled.slice(0, formAtMostBytes), 'latin1') };
}

/** mulberry32: the same bodies in every run. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * Math.max(1, below));
  };
}
