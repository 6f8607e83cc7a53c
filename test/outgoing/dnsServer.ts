import { createSocket, type RemoteInfo } from 'node:dgram';
import { setTimeout as pass } from 'node:timers/promises';
import type { Lookup, Names } from '../../src/outgoing/names.js';

/** IPv4 addresses; none means that the name exists without any. `alias`: of a name without any. */
type Answer = readonly string[] | Families | keyof typeof codes | 'silent' | 'alias' | 'truncated';

/** RFC 1035, section 4.1.1. */
const codes = { malformed: 1, broken: 2, unknown: 3, not_implemented: 4, refused: 5 } as const;

/** By family, each after its delay (ms). `silent`: never. */
interface Families {
  a: readonly string[] | 'silent' | 'alias';
  aaaa: readonly string[] | 'silent' | 'unknown';
  afterMs?: { a?: number; aaaa?: number };
}

export type DnsServer = Awaited<ReturnType<typeof startDnsServer>>;

/** A name server on 127.0.0.1 that answers what a test wants. @param answer may wait, also for long */
export async function startDnsServer(answer: (name: string) => Answer | Promise<Answer>, ttlSeconds = 0) {
  const asked: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (query, from) => void reply(query, from));
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  let open = true;

  async function reply(query: Buffer, { port, address }: RemoteInfo): Promise<void> {
    const { name, type, question } = questionOf(query);
    asked.push(name);
    const given = await answer(name);
    const isOne = typeof given === 'string' || Array.isArray(given);
    const family = type === ipv4Type ? 'a' : 'aaaa';
    const found = isOne ? (given as Exclude<Answer, Families>) : (given as Families)[family];
    if (!isOne) await pass((given as Families).afterMs?.[family] ?? 0);
    if (found !== 'silent' && open)
      socket.send(answerTo(query, question, type, found, ttlSeconds), port, address);
  }

  return {
    /** For `Resolver.setServers`. */
    address: `127.0.0.1:${socket.address().port}`,
    /** The names that were asked for, the root as the empty name. */
    asked,
    close: () => {
      open = false;
      return new Promise<void>((resolve) => socket.close(resolve));
    },
  };
}

const ipv4Type = 1;
const cnameType = 5;

function questionOf(query: Buffer): { name: string; type: number; question: Buffer } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('ascii', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return {
    name: labels.join('.').toLowerCase(),
    type: query.readUInt16BE(at + 1),
    question: query.subarray(12, at + 5),
  };
}

/** RFC 1035 section 4.1: a header, the question, and a record for each address. */
function answerTo(
  query: Buffer,
  question: Buffer,
  type: number,
  found: Exclude<Answer, 'silent' | Families>,
  ttlSeconds: number,
): Buffer {
  const code = typeof found === 'string' && found in codes ? codes[found as keyof typeof codes] : 0;
  // The rest is to be had over TCP, where nothing listens.
  const truncated = found === 'truncated' ? 0x200 : 0;
  const addresses =
    typeof found === 'string' ? [] : found.filter((one) => one.includes(':') === (type !== ipv4Type));
  const header = Buffer.alloc(12);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(0x8180 | truncated | code, 2);
  header.writeUInt16BE(1, 4);
  const record = (type: number, data: number[]) =>
    Buffer.from([0xc0, 12, 0, type, 0, 1, 0, 0, 0, ttlSeconds, 0, ...data]);
  const records = addresses.map((address) => record(type, bytesOf(address)));
  if (found === 'alias') records.push(record(cnameType, [3, 1, 0x61, 0]));
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, question, ...records]);
}

/** Length and bytes of an address; of IPv6 with all its eight groups. */
function bytesOf(address: string): number[] {
  if (!address.includes(':')) return [4, ...address.split('.').map(Number)];
  const groups = address.split(':').map((group) => Number.parseInt(group, 16));
  return [16, ...groups.flatMap((group) => [group >> 8, group & 255])];
}

/** Names by a test's own lookup, whose resolver is never to blame. */
export const namesBy = (lookup: Lookup): Names => ({ lookup, isResolverSilent: async () => false });

/** Every name has these addresses; of several lists each lookup gets the next, up to the last. */
export const answering =
  (...answers: string[][]): Lookup =>
  async () => {
    const addresses = answers.length > 1 ? answers.shift() : answers[0];
    return (addresses ?? []).map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
  };

/** Every name is 127.0.0.1. */
export const loopbackNames = namesBy(answering(['127.0.0.1']));
