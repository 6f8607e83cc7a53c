/** The only reader of the errors of Redis: gives each a reason from a fixed list, with words for people. */

/** Redis did not answer, or refused: the command may or may not have run. Its cause has the reason. */
export class RedisUnavailable extends Error {
  override name = 'RedisUnavailable';
}

interface Reason {
  /** Of a server's answer, of ioredis, or the code of a socket's error. */
  words?: RegExp;
  /** For people; `COMMAND` stands for the command. */
  says: string;
  todo: string;
  /** Waiting does not cure it: a start ends, and a running process is not ready. */
  lasts?: boolean;
}

const refused = 'Events, tokens and registrations are answered 503.';
const needs = 'docs/reference/needs.md';
const server = 'Check its host, its memory, its disk and SLOWLOG GET.';

/** The first row whose words are in an error gives its reason. */
const reasons = {
  full: {
    words: /^OOM |-OOM |\bOOM command not allowed/,
    says: `Redis is full (maxmemory). ${refused}`,
    todo: 'Free memory or raise maxmemory; docs/capacity.md says how much is needed.',
  },
  disk: {
    words: /MISCONF/,
    says: `Redis refuses writes because its last write to disk failed. ${refused}`,
    todo: server,
  },
  replica: {
    words: /READONLY|WAITAOF cannot be used with replica/,
    says: `Redis refuses writes: it is a replica, and REDIS_URL must lead to the primary. ${refused}`,
    todo: 'Correct REDIS_URL; a failover ends this by itself.',
  },
  replicas: {
    words: /NOREPLICAS/,
    says: `Redis refuses writes: too few replicas are connected (min-replicas-to-write). ${refused}`,
    todo: 'Connect more replicas, or lower min-replicas-to-write.',
  },
  silent: {
    words: /ETIMEDOUT|sentinels are unreachable.*(timed out|closed|ECONNREFUSED)/,
    says: 'No connection to Redis, or to any Sentinel, comes about.',
    todo: 'Check its host and the network. If REDIS_URL begins with rediss://, its port may speak no TLS.',
  },
  timeout: { words: /(Command |Socket |^)timed? ?out/, says: 'Redis does not answer in time.', todo: server },
  not_ready: {
    // "Function not found": while a slot is being moved, its new server may lack the scripts.
    words:
      /^(LOADING|NOSCRIPT|MASTERDOWN|CLUSTERDOWN|BUSY|TRYAGAIN|UNBLOCKED)\b|Function not found|Too many Cluster redirections|cluster is down|loading the dataset/,
    says: 'Redis is not ready: it loads its data, runs a long script, or is out of reach for its cluster or proxy.',
    todo: 'Wait; if it lasts, look at the log of Redis.',
  },
  cluster: {
    words: /\b(MOVED|ASK) \d+ \S|^CROSSSLOT/,
    says: 'The server is a node of a cluster.',
    todo: 'Begin REDIS_URL with redis+cluster:// (rediss+cluster:// for TLS).',
    lasts: true,
  },
  not_cluster: {
    words: /cluster support disabled|unknown command.*\bcluster\b/i,
    says: 'The server is a single Redis, not a node of a cluster.',
    todo: 'Begin REDIS_URL with redis:// (rediss:// for TLS).',
    lasts: true,
  },
  not_redis: {
    words: /Unknown RESP type/,
    says: 'What answers is no Redis.',
    todo: 'Correct host and port of REDIS_URL; if the port expects TLS, begin it with rediss://.',
    lasts: true,
  },
  no_primary: {
    words: /No such master|unknown command.*\bsentinel\b/i,
    says: 'REDIS_URL names no Sentinels, or the Sentinels have no primary of that name.',
    todo: 'Name the Sentinels (usually port 26379) and their name of the primary: SENTINEL MASTERS lists it.',
    lasts: true,
  },
  database: {
    words: /DB index|invalid DB|SELECT is not allowed|out of range/i,
    says: 'The server does not have the database that REDIS_URL names after the slash.',
    todo: 'Name one that exists, or none: KEY_PREFIX keeps two installations in one database apart.',
    lasts: true,
  },
  credentials: {
    words:
      /WRONGPASS|NOAUTH|protected mode|invalid password|invalid username|without any password configured|Authentication required|unauthenticated/i,
    says: 'Redis refuses the user or the password.',
    todo: 'Correct both in REDIS_URL, percent-encoded.',
    lasts: true,
  },
  connections: {
    words: /max number of clients|too many connections|max.*connections/i,
    says: 'Redis accepts no further connections (maxclients).',
    todo: 'Raise maxclients, or end other connections: CLIENT LIST.',
  },
  address: {
    says: "Redis accepts no calls from this machine's address.",
    todo: 'Add the address to those that its provider lets in.',
    lasts: true,
  },
  limit: {
    says: 'Redis refuses COMMAND: a limit of its provider is reached, or the store is suspended.',
    todo: 'Look at the quota and the account of the store.',
  },
  not_durable: {
    words: /appendonly is disabled/,
    says: 'Redis keeps no append-only file: a crash of it loses accepted writes.',
    todo: 'CONFIG SET appendonly yes, and in redis.conf; or REDIS_DURABILITY=trusted.',
  },
  right: {
    words: /NOPERM|ACL failure|no permissions|permission denied|not authori[sz]ed/i,
    says: 'Redis does not let its user run COMMAND, or not on these keys.',
    todo: `Grant it: ${needs} has the line for ACL SETUSER.`,
    lasts: true,
  },
  command: {
    words:
      /unknown (redis )?(sub)?command|not (available|allowed|supported|implemented|enabled)|unsupported|disabled|answers nothing|by Sentinel/i,
    says: 'The server refuses COMMAND: it is older than Redis 7.2, a Sentinel, or its provider has no such command.',
    todo: `${needs} says what the service needs.`,
    lasts: true,
  },
  unknown_host: {
    words: /ENOTFOUND|EAI_AGAIN/,
    says: 'The host name in REDIS_URL cannot be looked up.',
    todo: 'Correct the name in REDIS_URL, or the resolver of this machine.',
  },
  client_certificate: {
    words: /CERTIFICATE_REQUIRED|ALERT_((BAD|NO)_CERTIFICATE|CERTIFICATE_|UNKNOWN_CA)/,
    says: 'Redis demands a certificate of its callers, and the service has none that it accepts.',
    todo: 'Set REDIS_CERTIFICATE_FILE and REDIS_CERTIFICATE_KEY_FILE to one that its authority has signed and that is valid; or tls-auth-clients no in its configuration ("yes" is the default with TLS): user and password protect it.',
    lasts: true,
  },
  tls: {
    words:
      /ERR_SSL_|ERR_TLS_|CERT_|EPROTO|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|HOSTNAME_MISMATCH|wrong version number/,
    says: 'No TLS connection to Redis can be made.',
    todo: 'Its port may speak no TLS (then redis://); its certificate must name the host that REDIS_URL, a Sentinel or the cluster gives, and NODE_EXTRA_CA_CERTS its authority.',
    lasts: true,
  },
  closed: {
    words: /ECONNRESET|EPIPE|closed before an answer/,
    says: 'Redis closes the connection without an answer.',
    todo: 'If its port expects TLS, begin REDIS_URL with rediss://, and with redis:// if not. A proxy may know too few commands. Else look at its log.',
  },
  away: {
    words:
      /Connection is closed|Command aborted|Stream isn't writeable|max retries per request|ECONN|EHOST|ENET|Cluster isn't ready|None of startup nodes|Cluster is ended|Failed to refresh slots cache/,
    says: 'Redis does not answer.',
    todo: 'Start it, or correct REDIS_URL.',
  },
  unconfirmed: {
    says: 'Redis does not confirm in time that a write is on disk (WAITAOF).',
    todo: 'Look at its disk, at the network to it, and at the replicas that REDIS_ACK_REPLICAS needs.',
  },
  emptied: {
    words: /^the store has lost its data$/,
    says: 'The store has lost its data: the mark of this installation is gone. Nothing is accepted.',
    todo: 'docs/guides/disaster.md#loss-of-a-store: bring the data back, or say that the store is meant to be empty: operator store accept-empty',
    lasts: true,
  },
  refused: {
    says: 'Redis refuses COMMAND in words that the service does not know.',
    todo: 'Run the command with redis-cli as the same user to read its answer.',
  },
  other: { says: 'A command failed by a bug of the service, or by a broken key.', todo: 'See the log.' },
} as const satisfies Record<string, Reason>;

/** Why a command failed. `other`: a bug of the service, such as a script that fails, or a key of another type. */
export type RedisReason = keyof typeof reasons;
export const redisReasons = Object.keys(reasons) as RedisReason[];

/** What Redis did not do, and why. Has no text of the server: an answer may quote a command's arguments. */
export interface Refusal {
  reason: RedisReason;
  /** In capital letters; absent for the connection. */
  command?: string | undefined;
  /** The code of a socket's error. */
  code?: string | undefined;
}

/** How providers, and proxies before a server, word a refusal that no row knows: the first of these in an answer gives its reason. */
const hints: readonly (readonly [RedisReason, RegExp])[] = [
  ['address', /illegal address|client ip|white.?list|allow.?list/i],
  ['credentials', /\bauth\w* fail|unauthori[sz]ed|\btoken\b.*(expired|invalid)/i],
  ['full', /\b(capacity|data(base)? size|space|storage)\b.*(exceed|limit|full|quota)/i],
  ['limit', /exceed|quota|limit|throttl|bandwidth|too many|suspend|paused|\blocked|NOWRITE|NOREAD/i],
  ['right', /\bden(y|ied)\b|permi(t|ssion)/i],
  ['cluster', /same slot/i],
  ['command', /not (support|implement)|forbid|blocked|KEYS array|(no such|invalid) (command|request)/i],
  ['not_ready', /upstream|backend|server|host|connection|deliver|temporar|unavail|online|ready|timed out/i],
];

/** Answers to a command that is wrong itself, or meets a key of another type. */
const faults =
  /^WRONGTYPE|attempt to|wrong number of arguments|syntax error|is not an? (valid |integer|float)/i;

export function refusalOf(err: unknown): Refusal {
  const found = read(err);
  // A cluster hides the errors of its nodes, a Sentinel's connection and an unconfirmed write the reason behind theirs.
  const { cause, lastNodeError } = (err ?? {}) as { cause?: unknown; lastNodeError?: unknown };
  const below = cause ?? lastNodeError;
  if (below === undefined || !['other', 'away', 'unconfirmed', 'silent'].includes(found.reason)) return found;
  const deeper = refusalOf(below);
  const saysLess = found.reason === 'silent' && !isAnswer(deeper);
  return deeper.reason === 'other' || saysLess ? found : deeper;
}

function read(err: unknown): Refusal {
  if (!(err instanceof Error)) return { reason: 'other' };
  const { code, command } = err as { code?: string; command?: { name?: string } };
  // What a user may not run in a script is not the script.
  const name = /permissions to run the '(\w+)' command/.exec(err.message)?.[1] ?? command?.name;
  const found = { ...(code && { code }), ...(name && { command: name.toUpperCase() }) };
  if (found.command !== 'SELECT' && faults.test(err.message)) return { reason: 'other', ...found };
  const row = redisReasons.find((one) => (reasons[one] as Reason).words?.test(`${err.message} ${code}`));
  if (row !== undefined) return { reason: row, ...found };
  if (err instanceof RedisUnavailable) return { reason: 'unconfirmed', ...found };
  // A script's own error says where it happened.
  if (err.name !== 'ReplyError' || /script: |@user_/.test(err.message)) return { reason: 'other', ...found };
  return { reason: hints.find(([, words]) => words.test(err.message))?.[0] ?? 'refused', ...found };
}

/** What else can be done where one command is refused for good. */
const instead: Record<string, string> = {
  WAITAOF:
    'Or, if the store is durable by itself, set REDIS_DURABILITY=trusted: the service then answers without asking whether a write is on disk.',
  HEXPIRE:
    'Only SEGMENT_RETENTION_DAYS needs HEXPIRE: use Redis 7.4 or Valkey 9.0, or newer, or leave it out.',
};

/** Explains refusals in sentences for people, with one entry for the commands that a server refuses for one reason. */
export function explainRefusals(refusals: readonly (Refusal & { server?: string })[]) {
  const groups = new Map<string, (typeof refusals)[number] & { commands: string[] }>();
  for (const one of refusals) {
    const key = `${one.server} ${one.reason} ${one.code}`;
    const group = groups.get(key) ?? { ...one, commands: [] };
    if (one.command !== undefined && !group.commands.includes(one.command)) group.commands.push(one.command);
    groups.set(key, group);
  }
  return [...groups.values()].map(({ server = '', reason, code, commands }) => {
    const { says, todo, lasts = false } = reasons[reason] as Reason;
    const named = says.replace('COMMAND', commands.length === 0 ? 'a command' : commands.join(', '));
    return {
      server,
      reason,
      commands: isOfCommand(reason) ? commands : [],
      says: code === undefined ? named : `${named.slice(0, -1)} (${code}).`,
      todo: [todo, ...(lasts ? commands.flatMap((name) => instead[name] ?? []) : [])].join(' '),
      lasts,
    };
  });
}

/** Reasons that hold for single commands; their words name it. */
export const ofCommands: readonly RedisReason[] = ['limit', 'right', 'command', 'refused'];
export const isOfCommand = (reason: RedisReason): boolean => ofCommands.includes(reason);

/** False for an answer that was late, or lost with its connection: it says nothing about the server. */
export const isAnswer = ({ reason }: Refusal): boolean =>
  !['other', 'timeout', 'silent', 'away', 'closed'].includes(reason);

export const isLasting = ({ reason }: Refusal): boolean => (reasons[reason] as Reason).lasts === true;

/** True for a reason that ends only when somebody acts. */
export const needsSomebody = (one: Refusal): boolean => isLasting(one) || one.reason === 'connections';

/** True for an error that means "Redis is unavailable, full, refuses or did not answer", not for a script's own error. */
export const isRedisUnavailable = (err: unknown): boolean => refusalOf(err).reason !== 'other';

const says = (words: RegExp) => (err: unknown) => err instanceof Error && words.test(err.message);

export const isNotLoaded = says(/^ERR Function not found$|^NOSCRIPT /);
export const isLoaded = says(/already exists/);
export const isDeleted = says(/^ERR Library not found/);
/** The answer of a demoted primary. A script's error has more before the word. */
export const isReadOnly = says(/READONLY You can't write/);
/** True for a command whose slot has moved or is being moved. */
export const isRedirected = says(/^(MOVED|ASK|TRYAGAIN) /);

/** Handles an error that also reaches the callers: this only prevents an unhandled rejection. */
export function ignore(): void {}

/**
 * Waits for one client's part of a longer work, so that its broken keys do not stop the parts of other clients.
 * @returns the result of the work; undefined if it threw, which `onBroken` is told
 * @throws if Redis is unavailable
 */
export const unlessBroken = <T>(work: Promise<T>, onBroken: (err: unknown) => unknown) =>
  work.catch(async (err: unknown) => {
    if (isRedisUnavailable(err)) throw err;
    await onBroken(err);
    return undefined;
  });
