/**
 * Lists the fields of each hash whose fields have fixed names. TypeScript takes its types from here, and a test checks the
 * scripts against the list (test/redis/scripts.test.ts). Times are ms; a field without a value is absent.
 */
export const fields = {
  /** previous_secrets: `<hash>:<valid until>` of each, separated by commas; generation: raised to end all tokens;
   *  console_generation: raised to end all links and sessions of the console. */
  account: [
    'name',
    'client_id',
    'scopes',
    'secret_hash',
    'previous_secrets',
    'generation',
    'console_generation',
    'disabled',
    'created_at',
  ],
  client: ['account_id', 'name', 'created_at', 'max_in_flight', 'max_per_second', 'deleted'],
  /** nonce: of the call that stored the URL; answered: '1' once a caller was answered 200. */
  registration: ['url', 'generation', 'registered_at', 'nonce', 'account_id', 'answered', 'pending_since'],
  /**
   *   generation      raised by each register, reset and change of the URL; never falls
   *   state           active (also when absent) | failing | suspended
   *   paused, held    '1' while an operator paused it; while its account is disabled
   *   epoch           raised at each change of state: a verdict from an older epoch changes no state
   *   failures, attempts_failed   failed attempts in a row over all notifications; those that count towards a suspension
   *   first_failure_at, first_failure_clock   the first of them: its time, and the client's clock then
   *   not_before      no attempt before it (Retry-After)
   *   probe_step, probe_at, probe   the one probe of a failing endpoint; probe: `<token> <asset>`
   *   clock_ms, clock_at   the client's clock: ms run so far; since when it runs (0: it is stopped)
   *   catch_up_until  until when catch-up sleeps (absent: none is known to run)
   *   rate_at, drain_at   the time of the next free place in max_per_second, and in the drain rate
   *   picks           how many places live and backfill have competed for, modulo 4: the fourth is of the backfill
   *   recovered_at    when deliveries could last go on again: assets that wait since before drain at a bounded rate
   *   updates_until   the latest time of acceptance that a reader of the feed has seen in the list (updates.ts)
   *   state_notice, secret_notice   JSON of a notice that is not claimed yet (records/notices.ts)
   */
  endpoint: [
    'generation',
    'state',
    'paused',
    'held',
    'epoch',
    'failures',
    'attempts_failed',
    'first_failure_at',
    'first_failure_clock',
    'last_failure_at',
    'last_success_at',
    'last_error',
    'last_status',
    'not_before',
    'probe_step',
    'probe_at',
    'probe',
    'clock_ms',
    'clock_at',
    'catch_up_until',
    'rate_at',
    'drain_at',
    'picks',
    'recovered_at',
    'updates_until',
    'state_notice',
    'secret_notice',
  ],
  /**
   *   state           absent: waiting
   *   priority        absent: live
   *   group           name of the workflow that it shares; absent: it has its own
   *   by, reason      superseded by, not needed because of; why it failed
   *   attempts        JSON, one line each
   *   clock_since     the client's clock at the first failed attempt
   *   trace           traceparent of the event, if tracing is on
   *   body            of a notice; absent: that of section 3 of the contract
   */
  notification: [
    'asset',
    'event',
    'accepted_at',
    'state',
    'priority',
    'group',
    'by',
    'reason',
    'ended_at',
    'attempts',
    'failures',
    'clock_since',
    'trace',
    'body',
  ],
} as const;

export type HashName = keyof typeof fields;
export type FieldOf<N extends HashName> = (typeof fields)[N][number];
/** A hash as Redis returns it. */
export type HashOf<N extends HashName> = Partial<Record<FieldOf<N>, string>>;
