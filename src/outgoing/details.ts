/** What went wrong in an attempt, below its class, and what to do about it: codes of the service's own, made from an error's code and never from its text. */

type Words = readonly [does: string, advice: string];
const records = 'Correct the name’s DNS records (A, AAAA), or have the right URL registered.';
const nameServers = 'Repair the domain’s name servers and its DNSSEC: they must answer to everybody.';
const firewall = 'Let us in at every firewall; check the address in DNS.';
const renew = 'Renew the certificate (or its intermediate), and reload the server.';
const publicAuthority = 'Use a certificate of a public authority.';
const byHost = 'Use a certificate that names the URL’s host, and choose it by SNI.';
const handshakeLog =
  'See the server’s or load balancer’s log: it may be overloaded, or have no certificate for the URL’s host.';
const brokenLog =
  'See the log of the server and of each proxy before it: something crashed or cut the connection.';
const finalStatus = 'Answer with a status from 200 on, in HTTP/1.1.';
const wrongUrl = 'Scheme and port of the URL do not fit: have the right URL registered.';
const serveMore =
  'Serve 16 connections at once (threads, workers), or close each after its answer. If you do: one of your machines or workers is stuck.';
const elsewhere = 'The URL leads to where we never send: correct DNS, or have a public https URL registered.';

/**
 * Every detail of each class (`redirect`, and mostly `http_status`, have the status instead): what the receiver does, and what to do about it.
 * docs/guides/receivers.md says the same.
 */
const words = {
  dns: {
    no_such_name: ['has a name that does not exist', records],
    no_address: ['has a name without an address', records],
    name_server_failed: ['has name servers that answer with an error', nameServers],
    name_server_silent: ['has name servers that do not answer', nameServers],
    name_server_truncated: [
      'has a name whose DNS answer does not fit one datagram, and we cannot get it over TCP',
      'Give the name fewer records (A, AAAA), and let its name servers answer over TCP port 53 too.',
    ],
  },
  connect: {
    refused: [
      'refuses connections',
      'Start the server; check the port in the URL, and that no firewall refuses us.',
    ],
    reset: ['resets connections', firewall],
    unreachable: ['cannot be reached', firewall],
    no_answer: ['does not answer to connections', firewall],
    proxy_found_no_way: ['cannot be reached', firewall],
  },
  tls: {
    certificate_expired: ['has a certificate that has expired', renew],
    certificate_not_yet_valid: [
      'has a certificate that is not valid yet',
      'Use a certificate that is valid by now.',
    ],
    certificate_name: ['has a certificate for another name', byHost],
    certificate_incomplete: [
      'sends a certificate without its issuer',
      'Send every intermediate (browsers may have them already), of a public authority.',
    ],
    certificate_self_signed: ['has a certificate that has signed itself', publicAuthority],
    certificate_unknown_authority: ['has a certificate of an authority that we do not know', publicAuthority],
    certificate_revoked: ['has a certificate that was revoked', renew],
    certificate_invalid: [
      'has a certificate that is not accepted',
      'Use a certificate of a public authority for servers, with an RSA key of at least 2,048 bits or an elliptic curve.',
    ],
    client_certificate_wanted: [
      'wants a certificate from us',
      'Require none for this URL: the signature says who sends.',
    ],
    tls_version: ['speaks only old versions of TLS', 'Enable TLS 1.2 or 1.3 with the usual ciphers.'],
    // Many servers end so without a certificate for the name.
    tls_cipher: ['shares no cipher with us', 'Enable usual ciphers, and a certificate for the URL’s host.'],
    tls_name_unknown: ['does not know its name in the handshake', byHost],
    http2_only: ['speaks HTTP/2 only', 'Enable HTTP/1.1 too.'],
    not_tls: ['does not speak TLS', wrongUrl],
    handshake_broken: ['breaks off TLS', handshakeLog],
  },
  timeout: {
    during_lookup: ['has name servers that do not answer in time', nameServers],
    during_connect: ['does not answer to connections in time', firewall],
    during_handshake: ['does not end the TLS handshake in time', handshakeLog],
    during_answer: ['does not answer in time', 'Answer first, work afterwards.'],
    connection_unserved: ['leaves a new connection waiting while it answers others', serveMore],
  },
  http_status: {
    retry_after_unreadable: ['sends a Retry-After that we cannot read', 'Send seconds, or an HTTP date.'],
  },
  redirect: {},
  blocked_address: {
    not_public: ['has an address that is not public', elsewhere],
    own_address: ['has an address of this service', elsewhere],
    http_not_allowed: ['is not reached by https', 'Have an https URL registered.'],
  },
  protocol: {
    closed_without_answer: ['closes the connection without an answer', brokenLog],
    reset_without_answer: ['resets the connection without an answer', brokenLog],
    closed_in_status_line: ['closes the connection in the first line of its answer', brokenLog],
    not_http: ['does not answer in HTTP', 'Answer in HTTP/1.1, or have the right URL registered.'],
    http2_only: ['speaks HTTP/2 only', 'Enable HTTP/1.1 too.'],
    https_expected: ['expects https', wrongUrl],
    switching_protocols: ['switches to another protocol (101)', finalStatus],
    endless_interim: ['sends interim answers (1xx) without end', finalStatus],
    request_invalid: ['cannot be sent the headers that were set for it', 'Set its request headers again.'],
  },
} as const satisfies Record<string, Record<string, Words>>;

/** What an attempt shows beside its end, and what to do about it. docs/guides/receivers.md says the same. */
const remarks = {
  short_hello: [
    'takes only a first TLS message of one packet',
    'Update the firewall or load balancer before the server: it must take a ClientHello in several packets. Until then we send a short one.',
  ],
  one_connection: ['answers a new connection only once another is closed', serveMore],
  used_connection: [
    'answers so to a request that is not the first of its connection',
    'If it accepts the first: read each body to its end before you answer, or close the connection after the answer.',
  ],
  clock_off: [
    'gives times that are minutes or hours off',
    'Synchronise the clock (NTP), and write dates in GMT; or send Retry-After in seconds.',
  ],
  answer_unreadable: [
    'sends a body that cannot be shown',
    'Send error pages as text in UTF-8, uncompressed or in gzip, deflate or br.',
  ],
} as const satisfies Record<string, Words>;

export type AttemptRemark = keyof typeof remarks;
export const allRemarks = Object.keys(remarks) as AttemptRemark[];

/** Returns the sentences that say what an attempt showed, and what to do about it. */
export const explainRemarks = (shown: readonly string[] = [], whose = 'Your'): string[] =>
  allRemarks
    .filter((remark) => shown.includes(remark))
    .map((remark) => `${whose} server ${remarks[remark][0]}. ${remarks[remark][1]}`);

/** The error class of a failed attempt, in the contract's words. */
export type AttemptError = keyof typeof words;
export const attemptErrors = Object.keys(words) as AttemptError[];

export type DetailOf<E extends AttemptError> = keyof (typeof words)[E] & string;
export type AttemptDetail = { [E in AttemptError]: DetailOf<E> }[AttemptError];

const byDetail: Record<string, Words> = Object.assign({}, ...Object.values(words));

/** Every detail once, in the order of the classes. */
export const allDetails = Object.keys(byDetail) as AttemptDetail[];

const signature =
  'Compare its signing secret with that of this site, and verify the raw body. If a gateway in front of it asks for a key, set that as a header of your own; if a firewall refuses us, exempt this URL there.';
const crossSite =
  'If your framework protects forms against cross-site requests (CSRF), exempt this URL: the signature protects it.';
const path =
  'Compare the path of the URL with that of your receiver. If it has moved, ask OPERATOR to change the URL.';
const adviceByStatus: Record<number, string> = {
  304: 'We ask for nothing that a cache may have: answer 2xx.',
  401: signature,
  403: `${signature} ${crossSite}`,
  404: path,
  405: `Let it take POST requests. ${path}`,
  410: 'It says with 410 that this URL is gone for good: answer 2xx there again, or ask OPERATOR to change the URL.',
  419: crossSite,
  429: 'Let it take more requests, or ask OPERATOR to lower our request rate.',
  503: 'See its log. If it is busy, let it take more requests, or ask OPERATOR to lower our request rate.',
};

interface Failed {
  error?: string | null;
  detail?: string | null;
  status?: number | null;
}

/** Whom a receiver's owner asks, if nobody is named. */
export const defaultContact = 'your account manager';

/** Says what a receiver does that fails an attempt, and what to do about it. @param contact whom its owner asks */
export function explainFailure({ error, detail, status }: Failed, contact = defaultContact) {
  const [does = 'fails', advice = ''] = byDetail[detail ?? ''] ?? [];
  if (status === undefined || status === null) return { does, advice };
  if (advice !== '') return { does: `answers ${status} and ${does}`, advice };
  const otherwise =
    error === 'redirect'
      ? 'We do not follow: ask OPERATOR to register the final URL.'
      : 'Look into the logs of your server and of each proxy before it at that time.';
  const told = (adviceByStatus[status] ?? otherwise).replace('OPERATOR', contact);
  return { does: `answers ${status}`, advice: told };
}

/** Returns the detail of a lookup's error. @param code of c-ares */
export function dnsDetail(code: string): DetailOf<'dns'> {
  if (code === 'ENOTFOUND' || code === 'EBADNAME') return 'no_such_name';
  if (code === 'ENODATA') return 'no_address';
  return ['ETIMEOUT', 'ECONNREFUSED', 'ECANCELLED'].includes(code)
    ? 'name_server_silent'
    : 'name_server_failed';
}

/** Returns the detail of a failed connection. @param code of the system */
export function connectDetail(code: string): DetailOf<'connect'> {
  if (code === 'ECONNREFUSED') return 'refused';
  if (code === 'ETIMEDOUT') return 'no_answer';
  return code === 'ECONNRESET' || code === 'EPIPE' ? 'reset' : 'unreachable';
}

/** The first row that fits a code of Node or OpenSSL decides. Alerts about a certificate concern ours: we have none. */
const tlsCodes: readonly [RegExp, DetailOf<'tls'>][] = [
  [/^CERT_HAS_EXPIRED$/, 'certificate_expired'],
  [/^CERT_NOT_YET_VALID$/, 'certificate_not_yet_valid'],
  [/ALTNAME_INVALID|HOSTNAME_MISMATCH/, 'certificate_name'],
  [/^DEPTH_ZERO_SELF_SIGNED_CERT$/, 'certificate_self_signed'],
  [/^(UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?)$/, 'certificate_incomplete'],
  [/^(SELF_SIGNED_CERT_IN_CHAIN|CERT_UNTRUSTED|CERT_REJECTED)$/, 'certificate_unknown_authority'],
  [/^CERT_REVOKED$/, 'certificate_revoked'],
  [/CERTIFICATE_REQUIRED|ALERT_(BAD|NO|UNSUPPORTED|UNKNOWN)_CERTIFICATE/, 'client_certificate_wanted'],
  [/ALERT_CERTIFICATE|ALERT_UNKNOWN_CA|ALERT_ACCESS_DENIED/, 'client_certificate_wanted'],
  [/NO_APPLICATION_PROTOCOL/, 'http2_only'],
  [/PROTOCOL_VERSION|UN(SUPPORTED|KNOWN)_PROTOCOL|WRONG_SSL_VERSION|INAPPROPRIATE_FALLBACK/, 'tls_version'],
  [/WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|HTTP_REQUEST|RECORD_LAYER_FAILURE/, 'not_tls'],
  [/(?<!ALERT_)UNEXPECTED_MESSAGE/, 'not_tls'],
  [/HANDSHAKE_FAILURE|INSUFFICIENT_SECURITY|CIPHER|NO_SHARED|SIGNATURE_ALGORITHM/, 'tls_cipher'],
  [/LEGACY|TOO_SMALL|TOO_WEAK|CURVE/, 'tls_cipher'],
  [/UNRECOGNIZED_NAME/, 'tls_name_unknown'],
  [/^(ERR_SSL_.*|EPROTO|ECONNRESET|EPIPE|unknown error)$/, 'handshake_broken'],
];

/** Returns the detail of a failed handshake or of a certificate that was refused. @param code of Node or OpenSSL */
export const tlsDetail = (code: string): DetailOf<'tls'> =>
  tlsCodes.find(([pattern]) => pattern.test(code))?.[1] ?? 'certificate_invalid';
