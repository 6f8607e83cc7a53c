import { Command } from 'ioredis';

/**
 * Every Redis key, in one place. All keys of a client carry the hash tag `{client token}`: a script touches
 * one client, hence one cluster slot. Global keys are touched by plain commands, or by scripts of one key or one account.
 *
 * The fields of the hashes. Times are ms; a field without a value is absent.
 *
 * account
 *   name, scopes, created_at      scopes: separated by spaces
 *   secret_hash                   SHA-256 of the client secret
 *   previous_secrets              `<hash>:<valid until>` of each, separated by commas
 *   generation                    raised to end all tokens
 *   console_generation            raised to end all links and sessions of the console
 *   disabled, paused              '1' or '0'
 * client
 *   account_id, name, max_in_flight, max_per_second, quiet_seconds
 *   deleted                       '1' once it was deleted
 * registration
 *   url, registered_at
 *   nonce                         of the call that stored the URL
 *   answered                      '1' once a caller was answered 200
 *   pending_since                 since when it is not answered
 *   by                            'operator' if one has changed it or put it back
 * endpoint
 *   state                         active (also when absent) | failing | suspended
 *   paused, held                  '1' while an operator paused it; while its account is disabled ('1') or paused ('paused')
 *   epoch                         raised at each change of the URL or the state: a verdict from an older epoch changes no state
 *   url_epoch                     since when the URL stands: a verdict from an older epoch is of an older URL
 *   failures                      failed attempts in a row over all notifications, since the last resume of a suspended endpoint
 *   first_failure_at, first_failure_clock  the first of them: its time, and the client's clock then
 *   fails_since                   the same clock at the first since its last success, while it was resumed since
 *   last_success_at, last_failure_at, last_error, last_detail, last_status  of attempts
 *   last_failed_id                the notification of the last that failed
 *   not_before                    no attempt before it (Retry-After)
 *   probe_step, probe_at          of the next probe of a failing endpoint, whose attempts are all probes
 *   outages_ms                    for how much of that clock it accepted nobody, up to its last recovery (`accepting_clock`)
 *   clock_ms, clock_at            the client's clock: ms run so far; since when it runs (0: it is stopped)
 *   catch_up_until                until when catch-up sleeps (absent: none is known to run)
 *   planned_at, woken_at          when catch-up last noted that; when it was first woken since
 *   hurried_at                    when something was first made due since that plan
 *   retry_after                   for how long (ms) not_before was set
 *   clock_seen, turned            Redis' clock as last noted, once a second; the last step back that is set right (clocks.ts)
 *   set_right_by                  by how much the newest of what waited was ahead then
 *   pull_below                    while all that waits is made due: how far that has come, from the latest to the present
 *   pull_failed_before            what failed before it, by the client's clock without outages, keeps its time (0: nothing)
 *   rate_at, drain_at             when max_per_second allows the next attempt, and when the drain rate does
 *   places                        after a probe succeeded, how many attempts may be under way at most (0: all that are allowed)
 *   picks                         how many places live and backfill have competed for, modulo 4: the fourth is of the backfill
 *   leases_end                    when the first lease ended or ends, as of the last look at all of them
 *   recovered_at                  when deliveries could last go on again: assets that wait since before drain at a bounded rate
 *   changed_at                    when the list of changes of its state last got one
 *   secrets_at                    the version of the client's secrets: when the last of them changed, s and us
 *   updates_awaited_until         until when a caller of GET /updates waits (updates.ts)
 *   former_end                    when the first of the former URLs that are kept, or the request for another URL, ends (secrets.ts)
 *   feed_end                      the newest position of an asset that has left the feed since
 *   again_at, again_from          when something that never arrived was last owed again; its first time (notification.lua)
 *   state_notice, secret_notice, failed_notice, url_notice  JSON of a notice that is not claimed yet (records/notices.ts)
 *   notice_number                 of the last notice
 *   replay_since, replay_until, replay_count, replay_ended_at  the last replay: its span, how much it has owed, its end
 *   replay_leaves                 it leaves out what was owed again since then ('': nothing)
 *   replay_at, replay_end, replay_same  its position in the feed, and the last (0: none runs); the key by which the same one is found
 * notification
 *   asset, event, accepted_at, ended_at
 *   state                         absent: waiting
 *   priority                      absent: live
 *   group, again, unlisted        name of the workflow that it shares (absent: it has its own); when it was last owed again; '1' if
 *                                 the list no longer has it (`unlisted` has it while it is owed or failed)
 *   by, reason                    superseded by, not needed because of; why it failed
 *   attempts                      JSON, one line each
 *   failures, clock_since, failed_epoch  failed attempts since the URL stands; the client's clock without outages, and the epoch, at the first
 *   updated_at                    when its event was claimed: ms, as `webhook-updated-at` has it
 *   since                         of one that ended otherwise than delivered, or has failed: since when updates of its asset have not arrived
 *   trace                         traceparent of the event, if tracing is on
 *   body                          of a notice; absent: that of section 3 of the contract
 */
export function globalKeys(prefix: string) {
  const account = (id: string) => `${prefix}account:${id}`;
  const beside = (name: string, accountId: string) => `${prefix}${name}:{${account(accountId)}}`;
  return {
    // The mark of the installation, in a cluster one in each range of slots (mark.ts): version of this layout, id.
    layout: `${prefix}layout`,
    installation: `${prefix}installation`, // hash: what all processes must have alike (installation.ts)
    accounts: `${prefix}accounts`, // set of account ids
    accountNames: `${prefix}account-names`, // hash: the first account of each name
    // Hashes by which lists find (nameIndex.ts): account id -> when it was created, name; client token -> name, host of its URL; by lines.
    accountIndex: `${prefix}account-index`,
    clientIndex: `${prefix}client-index`,
    changedAccounts: `${prefix}changed-accounts`, // sorted set: by the time of a change that their clients follow, until the sweep has seen to it
    account, // hash, above
    // string: generation and scopes, with a TTL
    accessToken: (accountId: string, sha256: string) => `${beside('access-token', accountId)}:${sha256}`,
    accountClients: (id: string) => `${prefix}account-clients:${id}`, // set of client tokens
    // A rate (rates.lua)
    tokenRate: (accountId: string) => beside('token-rate', accountId),
    // Streams of the account's audited calls: the newest 2,000; those that no flood may displace, of the last 90 days.
    accountCalls: (id: string) => beside('account-calls', id),
    accountSecurityCalls: (id: string) => beside('account-security', id),
    // number: entries of a day in the second of them, of one kind (audit.ts); expires with the day
    accountDay: (id: string, kind: string) => `${beside('account-day', id)}:${kind}`,
    // Marks a call whose repeats make no second entry in an hour or a day, and its token and network for a day.
    accountCallMark: (id: string, mark: string) => `${beside('account-call', id)}:${mark}`,
    // Strings: JSON of the owner of a link to the console; of the session that a link has opened (sessions.ts).
    consoleLink: (sha256: string) => `${prefix}console-link:${sha256}`,
    consoleSession: (sha256: string) => `${prefix}console-session:${sha256}`,
    // Operators: hashes by the name of a token, JSON and the time of its last use; JSON by the SHA-256 of a link, of a
    // session, of a sign-in that has begun; how often links and sessions were ended (operatorAccess.ts).
    operatorTokens: `${prefix}operator-tokens`,
    operatorTokensUsed: `${prefix}operator-tokens-used`,
    operatorLink: (sha256: string) => `${prefix}operator-link:${sha256}`,
    operatorSession: (sha256: string) => `${prefix}operator-session:${sha256}`,
    operatorSignIn: (sha256: string) => `${prefix}operator-sign-in:${sha256}`,
    operatorEnds: `${prefix}operator-ends`,
    clients: `${prefix}clients`, // set of every client token, deleted ones too (never given out twice)
    deletedClients: `${prefix}deleted-clients`, // sorted set: by when the keys are to be cleared (0: at once), the first and the second time
    owedClients: `${prefix}owed-clients`, // sorted set, in a cluster in parts: client token by the time its last claim began
    // hash, in a cluster in parts: owed clients to which nothing can be sent, with the time of the sweep's next look, and how much
    stoppedClients: `${prefix}stopped-clients`,
    amissClients: `${prefix}amiss-clients`, // set: clients that `status` may have to name although they are owed nothing (owedClients.ts)
    // hash, in a cluster one in each range of slots: a server's clock as last seen; its last step back (clocks.ts)
    clock: `${prefix}clock`,
    urlRequests: `${prefix}url-requests`, // sorted set: clients that have asked for another URL, by when that ends (urlRequests.ts)
    processes: `${prefix}processes`, // sorted set: processes that start workflows, by the time each last said that it runs
    workers: `${prefix}workers`, // sorted set: the identities of workers in Temporal, likewise
    // Stream of operators' changes; by the hash of an operator's name: list of the ids that its further entries displace, number of
    // those of a day that nothing displaces.
    audit: `${prefix}audit`,
    auditOf: (who: string) => `${prefix}audit-of:{${prefix}audit}:${who}`,
    auditDayOf: (who: string) => `${prefix}audit-day:{${prefix}audit}:${who}`,
    // Sorted set, in a cluster in parts: `account <id> <minute>` and `client <token> <minute>` by the minute, of each in which the audit
    // has calls of that account or changes of that client's state (auditMinutes.ts).
    auditMinutes: `${prefix}audit-minutes`,
    sourceAddresses: `${prefix}source-addresses`, // hash: list, changed_at
    auditTold: `${prefix}audit-told`, // what is in the service's log: id of the last entry, states until when
    counts: `${prefix}counts`, // hash: JSON of the sweep's counts and of its end, each with its time (counts.ts)
    calls: (minute: number) => `${prefix}calls:${minute}`, // hash: numbers of calls and own failures of that minute (calls.ts)
    // Prefixes of rates: an account's expensive calls, `:<rate>:<account id>`; failed token calls, `:<id and address>`.
    accountRate: `${prefix}account-rate`,
    tokenFailures: `${prefix}token-failures`,
    attemptsBy: (hour: number) => `${prefix}attempts-by:${hour}`, // hash: as a client's, of all clients, and what they are owed
    diskMark: `${prefix}disk-mark`, // prefix of empty strings, `:{<tag>}`, that confirm writes (durable.ts); a minute
  };
}

/** Returns the prefix of every key of one client. Scripts add the rest. */
export const clientBase = (prefix: string, clientToken: string): string => `${prefix}{${clientToken}}:`;

export function clientKeys(prefix: string, clientToken: string) {
  const base = clientBase(prefix, clientToken);
  return {
    base,
    client: `${base}client`, // hash, above
    signingSecrets: `${base}signing-secrets`, // hash of the client's sealed secrets (secrets.ts)
    registration: `${base}registration`, // hash, above
    endpoint: `${base}endpoint`, // hash, above
    stateChanges: `${base}state-changes`, // list: JSON of the last 20 changes of state, newest first (endpoint.ts)
    callers: `${base}callers`, // set: accounts other than its own with calls about it in the audit
    owed: `${base}owed`, // hash: waiting asset -> notification id; written with the next three (notification.lua)
    owedSince: `${base}owed-since`, // sorted set: asset by the time since which it is owed
    dueLive: `${base}due:live`, // sorted sets: asset by the time it is due
    dueBackfill: `${base}due:backfill`,
    flight: `${base}flight`, // hash: owed asset that does not wait -> its attempt's entry (notification.lua)
    failed: `${base}failed`, // hash: asset -> the entry of its failed notification (notification.lua)
    failedAt: `${base}failed-at`, // sorted set: asset by the time of the failure
    failedIds: `${base}failed-ids`, // hash: failed notification -> asset
    notification: (id: string) => `${base}notification:${id}`, // hash, above; expires 14 days after its end, 3 minutes if unlisted and not failed
    notifications: `${base}notifications`, // sorted set: notification ids by the time of acceptance, the newest 10,000
    unlisted: `${base}unlisted`, // sorted set: those that came before and are owed or failed, alike
    feed: `${base}feed`, // sorted set: asset by the position of its newest update (updates.ts)
    updates: `${base}updates`, // no key: the channel on which those who wait for an update hear of one
    cancelled: `${base}cancelled`, // hash: day -> how many notifications ended as cancelled; the last 15 days
    replayed: (since: number, until: number | '') => `${base}replayed:${since}:${until}`, // ms: its end; while it runs, and a day
    replayOf: (asked: string) => `${base}replay-of:${asked}`, // JSON of the span that a relative one meant; 10 minutes
    late: `${base}late`, // hash: hour -> oldest update of what was delivered in it more than a minute late
    callRate: (name: string) => `${base}call-rate:${name}`, // a rate, of calls that send or set something
    attemptsBy: (hour: number) => `${base}attempts-by:${hour}`, // hash: results of that hour's attempts (attemptHistory.ts)
    decision: (platformId: string) => `${base}decision:${platformId}`, // JSON of the last that made no notification; 14 days
    // hash: asset field -> claim number (4), last claim's id (16), forgets (2), newest update (8), fingerprints (6 each) of the first 256
    // segments
    known: (bucket: string) => `${base}known:${bucket}`,
    // set: fingerprints of an asset's further segments (known.lua). The set `known-beside` has `<bucket>:<field>` of each
    // such asset. Entries whose set has expired may remain. The field is bytes.
    knownBeside: ({ bucket, field }: { bucket: string; field: Buffer }) =>
      Buffer.concat([Buffer.from(`${base}known:${bucket}:`), field]),
  };
}

/** From 0 to 16,383. */
export const slotOf = (key: string): number => new Command('get', [key]).getSlot() as number;

/** The slots are divided into this many ranges. Nodes own long sequences of slots, so hardly any range is on two nodes. */
const ranges = 256;
const rangeOf = (key: string): number => Math.floor((slotOf(key) * ranges) / 16_384);

/** A hash tag in each range: the smallest number, always the same. */
export const rangeTags: string[] = [];
for (let n = 0, missing = ranges; missing > 0; n++) {
  const range = rangeOf(String(n));
  if (rangeTags[range] !== undefined) continue;
  rangeTags[range] = String(n);
  missing--;
}

const partOf = (whole: string, tag: string): string => `${whole}:{${tag}}`;

/** Returns what a global key that is in parts in a cluster consists of: one part in each range. */
export const partsOf = (isCluster: boolean, whole: string): string[] =>
  isCluster ? rangeTags.map((tag) => partOf(whole, tag)) : [whole];

/** Returns the part in the range of another key. */
export const partBeside = (isCluster: boolean, whole: string, key: string): string =>
  isCluster ? partOf(whole, rangeTags[rangeOf(key)] as string) : whole;
