/**
 * The arguments of scripts that have many of them, or lists: named once, in their order. The readers of Lua (`args.event(ARGV, i)`: a
 * table with these names, and where the next argument is) and the writer of TypeScript are made from this. Values may be binary, so they
 * are not JSON.
 */
export type ScriptArgument = string | number | Buffer;

/** How Lua reads a value. `optional`: nil if it is absent. */
type Kind = 'text' | 'number' | 'flag' | 'optional';

const layouts = {
  /** The first arguments of a call that may take. */
  bounds: {
    leaseMs: 'number',
    maxInFlight: 'text',
    drainPerSecond: 'number',
    nonce: 'text',
    most: 'number',
    /** The version of the client's secrets that the caller knows. */
    knownSecrets: 'text',
  },
  claim: {
    /** After how long an asset's segments are forgotten, s; 0: never. */
    keepSegmentsSeconds: 'number',
  },
  event: {
    bucket: 'text',
    /** The asset's field in its bucket (8 bytes). */
    slot: 'text',
    id: 'text',
    idBytes: 'text',
    asset: 'text',
    event: 'text',
    lane: 'text',
    acceptedAt: 'text',
    isSilent: 'flag',
    /** Absent: its own workflow. */
    group: 'optional',
    /** The claim number that Redis may have lost; -1: not claimed before. */
    lookedUp: 'number',
    /** How often the asset was forgotten then. */
    forgets: 'number',
    /** 6 bytes each. */
    fingerprints: 'text',
    trace: 'optional',
    body: 'optional',
  },
  turn: {
    /** Nonces of calls whose answers were lost, between spaces. */
    lost: 'optional',
    /** JSON of the settings, if a verdict is a failure. */
    settings: 'optional',
    verdicts: 'number',
  },
  verdict: {
    asset: 'text',
    id: 'text',
    nonce: 'text',
    epoch: 'number',
    isOk: 'flag',
    status: 'text',
    error: 'text',
    retryAfterMs: 'number',
    line: 'text',
    /** From 0 to 1. */
    random: 'number',
  },
  givenBack: { asset: 'text', nonce: 'text', inMs: 'number' },
  plan: {
    retentionMs: 'number',
    maxInFlight: 'text',
    drainPerSecond: 'number',
    leastMs: 'number',
    leaseMs: 'number',
  },
  look: {
    id: 'text',
    asset: 'text',
    bucket: 'text',
    slot: 'text',
    idBytes: 'text',
    /** The claim's number; 0: unknown. */
    claim: 'number',
  },
} as const satisfies Record<string, Record<string, Kind>>;

type Value<K extends Kind> = K extends 'number'
  ? number
  : K extends 'flag'
    ? boolean
    : K extends 'optional'
      ? string | undefined
      : ScriptArgument;
type Values<L extends Record<string, Kind>> = { [Name in keyof L]: Value<L[Name]> };

const order = Object.fromEntries(
  Object.entries(layouts).map(([layout, names]) => [layout, Object.keys(names)]),
) as Record<keyof typeof layouts, string[]>;

/** Returns these values in the order in which Lua reads them. */
export function inOrder<N extends keyof typeof layouts>(layout: N, values: Values<(typeof layouts)[N]>) {
  const given = values as Record<string, ScriptArgument | boolean | undefined>;
  return order[layout].map((name) => {
    const value = given[name] ?? '';
    return typeof value === 'boolean' ? Number(value) : value;
  });
}

export const luaName = (name: string): string => name.replace(/[A-Z]/g, '_$&').toLowerCase();

const reads: Record<Kind, (at: string) => string> = {
  text: (at) => at,
  number: (at) => `tonumber(${at})`,
  flag: (at) => `${at} == '1'`,
  optional: (at) => `${at} ~= '' and ${at} or nil`,
};

export const readers = Object.entries(layouts).map(([layout, names]) => {
  const all = Object.entries(names).map(
    ([name, kind], i) => `${luaName(name)} = ${reads[kind](`ARGV[i + ${i}]`)}`,
  );
  return `function args.${luaName(layout)}(ARGV, i) return {${all.join(', ')}}, i + ${all.length} end\n`;
});
