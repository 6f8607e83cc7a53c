/**
 * Every Redis key, in one place. All keys of a client carry the hash tag `{client token}`: a script touches
 * one client, hence one cluster slot. What is global is touched by plain commands, or by scripts of one account.
 *
 * Global
 *   layout                        number, the layout version of the keys
 *   accounts                      set of account ids
 *   account:<id>                  hash (fields.ts)
 *   client-id:<client_id>         string: account id
 *   access-token:{<account's key>}:<sha256>  string: generation and scopes, with a TTL
 *   account-clients:<account id>  set of client tokens
 *   clients                       set of every client token, deleted ones too (never given out twice)
 *   account-calls:{<account's key>}  stream: who read or changed what of the account by the API, the newest 2,000 (auditCalls.ts)
 *   account-call:{<account's key>}:<mark>  the same reading call of the last minute
 *   account-rate:<names|records>:<account id>  number: dear calls of an account in the window that ends with the key
 *   console-link:<sha256>         string: JSON of whom a link of the console is for; 15 minutes (consoleSessions.ts)
 *   console-session:<sha256>      string: the same of a session that such a link has opened; 8 hours
 *   deleted-clients               sorted set: client token by the time of its deletion (ms), until its keys are cleared
 *   owed-clients                  sorted set: client token by the time its last claim began (ms); in a cluster
 *                                 owed-clients:{<n>}, each beside the clients in it (redis/owed/owedIndex.ts)
 *   audit                         stream of operators' changes
 *   audit-told                    id of its last entry that is in the service's log
 *   reclaimed-until               number: enrichment workflows that closed abnormally before it (ms) are dealt with
 *   reclaimed-runs                sorted set: run ids of those lately dealt with, by the time they closed (ms)
 *   reclaim-failed                number of those whose events could not be claimed at the last look
 *   unaccounted                   hash: client token and notification id -> JSON of what is inconsistent about it
 *   accounting-cursor             string: which clients the sweep looks at next
 *   broken-clients                set: client tokens whose keys the sweep could not read (brokenClients.ts)
 *   counts                        hash: JSON of what the sweep counted and of its end, each with when (counts.ts)
 *
 * Of one client, `{T}:` before each
 *   client                        hash (fields.ts)
 *   signing-secrets               hash of the client's signing secrets
 *   registration                  hash (fields.ts)
 *   endpoint                      hash (fields.ts)
 *   state-changes                 list: JSON of the last 20 changes of state, newest first (stateChanges.ts)
 *   known:<bucket>                hash: asset field -> claim number (4) + last claim's id (16) + fingerprints (6 each) of
 *                                 the first 256 segments
 *   known:<bucket>:<field>        set: fingerprints of an asset's further segments, 99,744 at most (shared/known.lua)
 *   known-beside                  set: <bucket>:<field> of each asset that has one
 *   owed                          hash: asset -> notification id, of what waits
 *   owed-since                    sorted set: asset by the time since which it is owed (ms)
 *   due:live, due:backfill        sorted set: asset by the time it is due (ms)
 *   flight                        hash: asset -> what its attempt holds (shared/notification.lua); such an asset is owed
 *                                 too, and in none of the four above
 *   resends                       hash: token and id of a redelivery under way -> the end of its lease (ms)
 *   notification:<id>             hash (fields.ts): one notification's record; expires 14 days after its end
 *   notifications                 sorted set: notification ids by the time of acceptance, the newest 10,000
 *   send-limit                    string: when the bucket of calls that send something is full again (ms); expires then
 *   attempts-by:<hour>            hash: what attempts of that hour came to, in 5-minute steps; 26 hours (attemptHistory.ts)
 *   decision:<asset>              string: JSON of the last decision that made no notification; 14 days
 *   beside:<asset>                set: ids of notifications that the chain of the asset's claims may not lead to; 14 days
 *                                 after the last of them ended (assetNotifications.ts)
 */
export function globalKeys(prefix: string) {
  return {
    layout: `${prefix}layout`,
    accounts: `${prefix}accounts`,
    account: (id: string) => `${prefix}account:${id}`,
    clientId: (clientId: string) => `${prefix}client-id:${clientId}`,
    accessToken: (accountId: string, sha256: string) =>
      `${prefix}access-token:{${prefix}account:${accountId}}:${sha256}`,
    accountClients: (id: string) => `${prefix}account-clients:${id}`,
    accountCalls: (id: string) => `${prefix}account-calls:{${prefix}account:${id}}`,
    accountCallMark: (id: string, mark: string) => `${prefix}account-call:{${prefix}account:${id}}:${mark}`,
    consoleLink: (sha256: string) => `${prefix}console-link:${sha256}`,
    consoleSession: (sha256: string) => `${prefix}console-session:${sha256}`,
    clients: `${prefix}clients`,
    deletedClients: `${prefix}deleted-clients`,
    owedClients: `${prefix}owed-clients`,
    /** The part of it with this hash tag, in a cluster. */
    owedClientsBeside: (tag: string) => `${prefix}owed-clients:{${tag}}`,
    audit: `${prefix}audit`,
    auditTold: `${prefix}audit-told`,
    reclaimedUntil: `${prefix}reclaimed-until`,
    reclaimedRuns: `${prefix}reclaimed-runs`,
    reclaimFailed: `${prefix}reclaim-failed`,
    unaccounted: `${prefix}unaccounted`,
    accountingCursor: `${prefix}accounting-cursor`,
    brokenClients: `${prefix}broken-clients`,
    counts: `${prefix}counts`,
    /** Before the keys that count an account's dear calls. */
    accountRate: `${prefix}account-rate`,
    /** Before the keys that count failed token calls. */
    tokenFailures: `${prefix}token-failures`,
    /** Written before each wait for the disk (nodeDurability.ts); in a cluster `disk-mark:{<n>}` on each node. */
    diskMark: `${prefix}disk-mark`,
  };
}

/** Returns the beginning of every key of one client. Scripts add the rest: a test holds them to `clientKeys`. */
export function clientBase(prefix: string, clientToken: string): string {
  return `${prefix}{${clientToken}}:`;
}

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
    resends: `${base}resends`,
    /** Of the first release, until the sweep meets it. */
    inFlightOfLayout1: `${base}in-flight`,
    notification: (id: string) => `${base}notification:${id}`,
    notifications: `${base}notifications`,
    sendLimit: `${base}send-limit`,
    attemptsBy: (hour: number) => `${base}attempts-by:${hour}`,
    decision: (platformId: string) => `${base}decision:${platformId}`,
    beside: (platformId: string) => `${base}beside:${platformId}`,
    known: (bucket: string) => `${base}known:${bucket}`,
    knownBesides: `${base}known-beside`,
    /** Of an asset with many segments; its field is bytes. */
    knownBeside: ({ bucket, field }: { bucket: string; field: Buffer }) =>
      Buffer.concat([Buffer.from(`${base}known:${bucket}:`), field]),
  };
}
