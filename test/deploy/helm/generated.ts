/**
 * The parts of the chart that follow from the code: the names and numbers of the settings, and the addresses to which the guard lets
 * notifications go. `npx tsx test/deploy/helm/generated.ts && npx biome format --write deploy` writes them; the tests compare them.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ipaddr from 'ipaddr.js';
import { environmentSchema } from '../../../src/config.js';
import { publicRanges, refusedRanges } from '../../../src/outgoing/address.js';

const chart = join(import.meta.dirname, '../../../deploy/helm/asset-update');
export const addressesFile = join(chart, 'templates/_publicAddresses.tpl');
export const schemaFile = join(chart, 'values.schema.json');

type Range = [first: bigint, bits: number];

const numberOf = (bytes: number[]): bigint => bytes.reduce((sum, byte) => sum * 256n + BigInt(byte), 0n);

/** Joins ranges: none is inside another, and two halves are one. */
function joined(ranges: Range[], length: number): Range[] {
  const size = ([, bits]: Range) => 1n << BigInt(length - bits);
  const sorted = [...ranges].sort((a, b) => (a[0] === b[0] ? a[1] - b[1] : a[0] < b[0] ? -1 : 1));
  const kept: Range[] = [];
  for (let next of sorted) {
    for (let last = kept.at(-1); last; last = kept.at(-1)) {
      if (next[0] < last[0] + size(last)) next = last;
      else if (last[1] !== next[1] || last[0] + size(last) !== next[0] || last[0] % (2n * size(last)) !== 0n)
        break;
      else next = [last[0], last[1] - 1];
      kept.pop();
    }
    kept.push(next);
  }
  return kept;
}

/** Returns each public range with those inside it that are refused, as lists of CIDR ranges. */
export function policyBlocks(): { cidr: string; except: string[] }[] {
  const rangesOf = (kind: string): Range[] =>
    refusedRanges
      .filter(([network]) => network.kind() === kind)
      .map(([network, bits]) => [numberOf(network.toByteArray()), bits]);
  const refused = { ipv4: joined(rangesOf('ipv4'), 32), ipv6: joined(rangesOf('ipv6'), 128) };
  const text = (first: bigint, bits: number, bytes: number) => {
    const hex = first.toString(16).padStart(2 * bytes, '0');
    return `${ipaddr.fromByteArray([...Buffer.from(hex, 'hex')])}/${bits}`;
  };
  return publicRanges.map(([network, bits]) => {
    const first = numberOf(network.toByteArray());
    const cidr = `${network}/${bits}`;
    if (network.kind() === 'ipv4') return { cidr, except: refused.ipv4.map(([one, of]) => text(one, of, 4)) };
    // The last 32 bits of NAT64 are an IPv4 address.
    const inside: Range[] =
      bits === 96
        ? refused.ipv4.map(([one, of]) => [first + one, 96 + of])
        : refused.ipv6.filter(
            ([one, of]) => of > bits && one >> BigInt(128 - bits) === first >> BigInt(128 - bits),
          );
    return { cidr, except: inside.map(([one, of]) => text(one, of, 16)) };
  });
}

export function publicAddresses(): string {
  const blocks = policyBlocks().map(
    ({ cidr, except }) =>
      `- ipBlock:\n    cidr: ${cidr}\n    except:\n${except.map((one) => `      - ${one}\n`).join('')}`,
  );
  return `{{/* Made by test/deploy/helm/generated.ts of what src/outgoing/address.ts calls public. */}}
{{- define "asset-update.publicAddresses" -}}
${blocks.join('')}{{- end }}
`;
}

/** Finds the greatest number that a setting takes, if it takes numbers up to one. */
function mostOf(takes: (text: string) => boolean): { maximum?: number } {
  const least = [1, 40].find((one) => takes(String(one)) && !takes('true') && !takes('x'));
  let [most, over] = [least ?? 0, 1e9];
  if (least === undefined || takes(String(over))) return {};
  while (over - most > 1) {
    const middle = Math.floor((most + over) / 2);
    if (takes(String(middle))) most = middle;
    else over = middle;
  }
  return { maximum: most };
}

/** Returns the schema of the values, with every setting of the service in `config`, numbers and flags as such. */
export function valuesSchema(): object {
  const schema = JSON.parse(readFileSync(schemaFile, 'utf8'));
  const { config, secretEnv } = schema.properties;
  const withoutUser = 'Without user and password: with them all of it goes into secretEnv.';
  const named = Object.entries(environmentSchema.shape).map(([name, of]) => {
    const takes = (text: string) => of.safeParse(text).success;
    const type = takes('x')
      ? { type: ['string', 'number', 'boolean'] }
      : ['http', 'redis'].some((scheme) => takes(`${scheme}://user:password@host:80`))
        ? { type: 'string', description: withoutUser, pattern: '^[^@]*$' }
        : takes('1') && takes('true')
          ? { enum: [true, false, 'true', 'false', '1', '0', ''] }
          : takes('1') || takes('40')
            ? {
                type: ['number', 'string'],
                pattern: takes('40,50') ? '^[0-9., ]*$' : '^[0-9.]*$',
                ...mostOf(takes),
              }
            : { type: ['string', 'number'] };
    return [name, { ...type, ...config.properties[name], ...mostOf(takes) }] as const;
  });
  config.properties = Object.fromEntries(named);
  const headers = 'OTEL_EXPORTER_OTLP_([A-Z]+_)?HEADERS|TEMPORAL_GRPC_META_.*';
  const secret = `^(SECRETS_KEY|${headers}|.*_(API_KEY|KEY_DATA|PASSWORD|TOKEN|SECRET))$`;
  config.patternProperties = {
    [secret]: { description: 'A secret: it goes into secretEnv.', not: {} },
    '^OTEL_[A-Z0-9_]*ENDPOINT$': { description: withoutUser, not: { type: 'string', pattern: '@' } },
    '^(TEMPORAL_TLS[A-Z0-9_]*|TEMPORAL_(PROFILE|CONFIG_FILE)|OTEL_[A-Z0-9_]+)$': {
      type: ['string', 'number', 'boolean'],
    },
  };
  config.additionalProperties = false;
  delete config.propertyNames;
  const names = named.map(([name]) => name).join('|');
  secretEnv.propertyNames = { pattern: `^(${names}|TEMPORAL_[A-Z0-9_]+|OTEL_[A-Z0-9_]+)$` };
  return schema;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeFileSync(addressesFile, publicAddresses());
  writeFileSync(schemaFile, `${JSON.stringify(valuesSchema(), null, 2)}\n`);
}
