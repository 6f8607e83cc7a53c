import { recordKeptDays } from '../../constants.js';

/**
 * Every Redis key, in one place. All keys of a client carry the hash tag `{client token}`: a script touches
 * one client, hence one cluster slot. Global keys are touched by plain commands, or by scripts of one key or one account.
 *
 * Global
 *   layout                        number, the layout version of the keys
 *   accounts                      set of account ids
 *   account:<id>                  hash, below
 *   access-token:{<account's key>}:<sha256>  string: generation and scopes, with a TTL
 *   account-clients:<account id>  set of client tokens
 *   clients                       set of every client token, deleted ones too (never given out twice)
 *   account-calls:{<account's key>}  stream: audited API calls of the account, the newest 2,000 (audit.ts)
 *   account-security:{<account's key>}  stream: those that no flood may displace, of the last 90 days
 *   account-call:{<account's key>}:<mark>  marks calls whose repeats make no second entry in a minute, an hour or a day
 *   account-rate:<names|records>:<account id>  number: expensive calls of an account in the window that ends with the key
 *   console-link:<sha256>         string: JSON of the owner of a console link; 15 minutes (consoleSessions.ts)
 *   console-session:<sha256>      string: the same for a session that a link has opened; 8 hours
 *   deleted-clients               sorted set: client token by the time of its deletion (ms), until its keys are cleared
 *   owed-clients                  sorted set: client token by the time its last claim began (ms); in a cluster
 *                                 owed-clients:{<n>}, each beside the clients in it (redis/owed/owedClients.ts)
 *   processes                     sorted set: ids of the processes that start workflows, by the time each last said that it
 *                                 runs (ms) (redis/connection/processes.ts)
 *   audit                         stream of operators' changes
 *   audit-told                    id of the last audit entry that is in the service's log
 *   token-failures:<id and address>  number: failed token calls in the window that ends with the key (tokenLimits.ts)
 *   disk-mark:{<tag>}             empty string, written before each confirmation of writes (durable.ts); expires after a minute
 *   counts                        hash: JSON of the sweep's counts and of its end, each with its time (counts.ts)
 *
 * Of one client, `{T}:` before each
 *   client                        hash, below
 *   signing-secrets               hash of the client's sealed secrets: signing secrets, and the values of its request headers
 *                                 (secrets.ts)
 *   registration                  hash, below
 *   endpoint                      hash, below
 *   state-changes                 list: JSON of the last 20 changes of state, newest first (endpoint.ts)
 *   known:<bucket>                hash: asset field -> claim number (4) + last claim's id (16) + fingerprints (6 each) of
 *                                 the first 256 segments
 *   known:<bucket>:<field>        set: fingerprints of an asset's further segments, 99,744 at most (known.lua)
 *   known-beside                  set: <bucket>:<field> of each asset that has such a set, and of some whose set has expired
 *   owed                          hash: waiting asset -> notification id; written with the three below by `write_waiting`
 *                                 (notification.lua)
 *   owed-since                    sorted set: asset by the time since which it is owed (ms)
 *   due:live, due:backfill        sorted set: asset by the time it is due (ms)
 *   flight                        hash: asset -> its attempt's entry (notification.lua); such an asset is also
 *                                 owed, and in none of the four above
 *   notification:<id>             hash, below: one notification's record; expires 14 days after its end
 *   notifications                 sorted set: notification ids by the time of acceptance, the newest 10,000
 *   updates                       stream: asset and notification id of updates that readers of the feed do not find in the
 *                                 list of notifications, the newest 10,000 (updates.ts)
 *   send-limit                    string: when the bucket of calls that send something is full again (ms); expires then
 *   attempts-by:<hour>            hash: results of that hour's attempts, in 5-minute steps; 26 hours (attemptHistory.ts)
 *   decision:<asset>              string: JSON of the last decision that made no notification; 14 days
 *
 * The fields of the hashes. Times are ms; a field without a value is absent.
 *
 * account
 *   name, scopes, created_at      scopes: separated by spaces
 *   secret_hash                   SHA-256 of the client secret
 *   previous_secrets              `<hash>:<valid until>` of each, separated by commas
 *   generation                    raised to end all tokens
 *   console_generation            raised to end all links and sessions of the console
 *   disabled                      '1' or '0'
 * client
 *   account_id, name, created_at, max_in_flight, max_per_second
 *   deleted                       '1' once it was deleted
 * registration
 *   url, generation, account_id, registered_at
 *   nonce                         of the call that stored the URL
 *   answered                      '1' once a caller was answered 200
 *   pending_since                 since when it is not answered
 * endpoint
 *   generation                    raised by each register, reset and change of the URL; never falls
 *   state                         active (also when absent) | failing | suspended
 *   paused, held                  '1' while an operator paused it; while its account is disabled
 *   epoch                         raised at each change of state: a verdict from an older epoch changes no state
 *   failures, attempts_failed     failed attempts in a row over all notifications; those that count towards a suspension
 *   first_failure_at, first_failure_clock  the first of them: its time, and the client's clock then
 *   last_success_at, last_failure_at, last_error, last_status  of attempts
 *   not_before                    no attempt before it (Retry-After)
 *   probe_step, probe_at, probe   the one probe of a failing endpoint; probe: `<token> <asset>`
 *   clock_ms, clock_at            the client's clock: ms run so far; since when it runs (0: it is stopped)
 *   catch_up_until                until when catch-up sleeps (absent: none is known to run)
 *   rate_at, drain_at             the time of the next free place in max_per_second, and in the drain rate
 *   picks                         how many places live and backfill have competed for, modulo 4: the fourth is of the backfill
 *   recovered_at                  when deliveries could last go on again: assets that wait since before drain at a bounded rate
 *   updates_until                 the latest time of acceptance that a reader of the feed has seen in the list (updates.ts)
 *   state_notice, secret_notice   JSON of a notice that is not claimed yet (records/notices.ts)
 * notification
 *   asset, event, accepted_at, ended_at
 *   state                         absent: waiting
 *   priority                      absent: live
 *   group                         name of the workflow that it shares; absent: it has its own
 *   by, reason                    superseded by, not needed because of; why it failed
 *   attempts                      JSON, one line each
 *   failures, clock_since         failed attempts; the client's clock at the first
 *   trace                         traceparent of the event, if tracing is on
 *   body                          of a notice; absent: that of section 3 of the contract
 */
export function globalKeys(prefix: string) {
  return {
    layout: `${prefix}layout`,
    accounts: `${prefix}accounts`,
    account: (id: string) => `${prefix}account:${id}`,
    accessToken: (accountId: string, sha256: string) =>
      `${prefix}access-token:{${prefix}account:${accountId}}:${sha256}`,
    accountClients: (id: string) => `${prefix}account-clients:${id}`,
    accountCalls: (id: string) => `${prefix}account-calls:{${prefix}account:${id}}`,
    accountSecurityCalls: (id: string) => `${prefix}account-security:{${prefix}account:${id}}`,
    accountCallMark: (id: string, mark: string) => `${prefix}account-call:{${prefix}account:${id}}:${mark}`,
    consoleLink: (sha256: string) => `${prefix}console-link:${sha256}`,
    consoleSession: (sha256: string) => `${prefix}console-session:${sha256}`,
    clients: `${prefix}clients`,
    deletedClients: `${prefix}deleted-clients`,
    owedClients: `${prefix}owed-clients`,
    /** The part of it with this hash tag, in a cluster. */
    owedClientsBeside: (tag: string) => `${prefix}owed-clients:{${tag}}`,
    processes: `${prefix}processes`,
    audit: `${prefix}audit`,
    auditTold: `${prefix}audit-told`,
    counts: `${prefix}counts`,
    /** Prefix of the keys that count an account's expensive calls. */
    accountRate: `${prefix}account-rate`,
    /** Prefix of the keys that count failed token calls. */
    tokenFailures: `${prefix}token-failures`,
    /** Prefix of the keys that are written before a confirmation (durable.ts). */
    diskMark: `${prefix}disk-mark`,
  };
}

/** Returns the prefix of every key of one client. Scripts add the rest. */
export function clientBase(prefix: string, clientToken: string): string {
  return `${prefix}{${clientToken}}:`;
}

/** How long the record of an ended notification is kept, ms (`KEEP_SECONDS` in notification.lua). */
export const recordKeptMs = recordKeptDays * 86_400_000;

export function clientKeys(prefix: string, clientToken: string) {
  const base = clientBase(prefix, clientToken);
  return {
    base,
    client: `${base}client`,
    signingSecrets: `${base}signing-secrets`,
    registration: `${base}registration`,
    endpoint: `${base}endpoint`,
    stateChanges: `${base}state-changes`,
    owed: `${base}owed`,
    owedSince: `${base}owed-since`,
    dueLive: `${base}due:live`,
    dueBackfill: `${base}due:backfill`,
    flight: `${base}flight`,
    notification: (id: string) => `${base}notification:${id}`,
    notifications: `${base}notifications`,
    updates: `${base}updates`,
    sendLimit: `${base}send-limit`,
    attemptsBy: (hour: number) => `${base}attempts-by:${hour}`,
    decision: (platformId: string) => `${base}decision:${platformId}`,
    known: (bucket: string) => `${base}known:${bucket}`,
    /** The set of an asset with many segments; its field is bytes. */
    knownBeside: ({ bucket, field }: { bucket: string; field: Buffer }) =>
      Buffer.concat([Buffer.from(`${base}known:${bucket}:`), field]),
  };
}
