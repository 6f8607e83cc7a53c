/** `doctor`: checks settings, Redis and Temporal, and says what to do. */
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { z } from 'zod';
import { acceptEmpty } from '../acts/installation.js';
import { presentTime } from '../acts/present.js';
import { readRedisCertificate } from '../addresses.js';
import type { Config } from '../config.js';
import { text, yesOrNo } from '../http/schemas.js';
import { judgeAddress, publicAddressBeside, readTargetPolicy } from '../outgoing/address.js';
import { systemNames } from '../outgoing/names.js';
import { type OutgoingProxy, readProxy } from '../outgoing/proxy.js';
import { answeredWithinMs, answersAt, leastAccounts, leastTried, networkOf } from '../outgoing/reach.js';
import { hostOf, parseUrl, portOf } from '../outgoing/target.js';
import { withTimeout } from '../promises.js';
import type { Db } from '../redis/connection/db.js';
import { getRegistration } from '../redis/records/registrations.js';
import { count } from '../web/words.js';
import { type Finding, finding, levels } from './installationChecks.js';
import { actOperation, answer, explainError, type Operator, operation, Refused } from './operation.js';
import { checkRedis } from './redisChecks.js';
import { readClients } from './situations.js';
import { checkTemporal } from './temporalChecks.js';

export const doctor = operation({
  command: 'doctor',
  does: 'check settings, Redis and Temporal',
  role: 'look',
  input: z.object({}),
  answers: z.object({
    level: z.enum(levels),
    findings: z.array(
      z.object({
        check: text('redis memory'),
        level: z.enum(levels),
        found: text('12 MB used without a limit of its own.'),
        do: text('Raise maxmemory.').nullable(),
      }),
    ),
  }),
  async run(operator) {
    const findings = await examine(operator);
    const failed = findings.filter(({ level }) => level === 'fail').length;
    const amiss = findings.filter(({ level }) => level !== 'ok');
    const todos = amiss.map((one) => `\n  ${one.check}: ${one.do}`).join('');
    const worst = failed > 0 ? 'fail' : amiss.length > 0 ? 'warn' : 'ok';
    const rows = findings.map(({ level, check, found }) => [level, check, found]);
    return {
      ...answer(
        { level: worst, findings },
        { head: ['', 'CHECK', 'FOUND'], rows, none: '' },
        todos === '' ? 'Every check is ok.' : `What to do:${todos}`,
      ),
      ...(failed > 0 && { failed: `${count(failed, 'check')} failed.` }),
    };
  },
});

async function examine(operator: Operator): Promise<Finding[]> {
  let config: Config;
  try {
    config = operator.config();
  } catch (err) {
    const todo = 'Correct each setting that is named; .env.example lists all settings.';
    return [finding('settings', 'fail', explainError(err).replaceAll(/\n */g, ' '), todo)];
  }
  // A server that cannot be checked is a finding.
  const unavailable = (check: string, setting: string) => (err: unknown) => {
    const known = err instanceof Refused ? err.todo : undefined;
    return [finding(check, 'fail', explainError(err), known ?? `Correct ${setting}, or start the server.`)];
  };
  // Loading it blocks this process, on a busy machine for longer than Redis may take to answer.
  await import('@temporalio/client');
  const redis = operator.db().then(async (db) => {
    const found = await checkRedis(db, config);
    if (config.OUTGOING_PROXY !== undefined) return found;
    return [...found, ...(await checkReceivers(db, config).catch(() => []))];
  });
  const temporal = checkTemporal(operator);
  const servers = await Promise.all([
    redis.catch(unavailable('redis', 'REDIS_URL')),
    temporal.catch(unavailable('temporal', 'TEMPORAL_ADDRESS')),
  ]);
  return [...checkSettings(config), ...(await checkWayOut(config)), ...servers.flat()];
}

function checkSettings(config: Config): Finding[] {
  const { REDIS_URL, SECRETS_KEY, ALLOW_HTTP_TARGETS, ALLOWED_TARGET_CIDRS, certificatesEndAtMs } = config;
  const key = SECRETS_KEY?.[0]?.id;
  const own = readRedisCertificate(config);
  const targets = [...(ALLOW_HTTP_TARGETS ? ['http'] : []), ...ALLOWED_TARGET_CIDRS];
  const encrypted =
    key === undefined
      ? 'There is no SECRETS_KEY: signing secrets are readable in Redis and in its backups.'
      : `Signing secrets are encrypted with the key "${key}".`;
  const encrypt =
    'Set SECRETS_KEY to <id>:<base64 of 32 bytes>, for the service and for this command, then run: secrets reencrypt';
  const sent =
    targets.length === 0
      ? 'Notifications go to public https addresses only.'
      : `Notifications may also go to ${targets.join(', ')}.`;
  const restrict =
    'That is for trying the service out ("npm start" sets it). In production leave ALLOW_HTTP_TARGETS and ALLOWED_TARGET_CIDRS unset.';
  const isClosed = /:[^/@]+@|[/@](127\.|localhost\b|\[::1\])/.test(REDIS_URL);
  const open = 'REDIS_URL has no password: whoever reaches Redis may read and change everything.';
  const close = 'Set requirepass, and REDIS_URL with it; rediss:// where others see that network.';
  return [
    ...(isClosed ? [] : [finding('settings REDIS_URL', 'warn', open, close)]),
    ...(certificatesEndAtMs === Number.POSITIVE_INFINITY
      ? []
      : [checkCertificates('TEMPORAL_TLS', 'Temporal', certificatesEndAtMs)]),
    ...(own ? [checkCertificates('REDIS_CERTIFICATE_FILE', 'Redis', own.endsAtMs)] : []),
    finding('settings SECRETS_KEY', key === undefined ? 'warn' : 'ok', encrypted, encrypt),
    finding('settings targets', targets.length > 0 ? 'warn' : 'ok', sent, restrict),
  ];
}

/** The alert warns as early. */
const certificatesEndSoonMs = 7 * 86_400_000;

function checkCertificates(setting: string, of: string, endAtMs: number): Finding {
  const leftMs = endAtMs - Date.now();
  const level = leftMs <= 0 ? 'fail' : leftMs < certificatesEndSoonMs ? 'warn' : 'ok';
  const found = `The certificates for ${of} are valid until ${presentTime(endAtMs)}.`;
  const todo = 'Renew the files, and restart every process: each reads them at its start only.';
  return finding(`settings ${setting}`, level, found, todo);
}

/** Tries the proxy to receivers, and compares the addresses that receivers are told with those of this machine. */
async function checkWayOut(config: Config): Promise<Finding[]> {
  const findings: Finding[] = [];
  const proxy = readProxy(config);
  if (proxy !== undefined) {
    const fault = await proxy.fault();
    const found =
      fault === undefined ? 'The proxy answers.' : `Nothing can be sent through the proxy: ${fault}.`;
    const todo = 'Start the proxy, or correct host, port and credentials in OUTGOING_PROXY.';
    findings.push(finding('settings OUTGOING_PROXY', fault === undefined ? 'ok' : 'fail', found, todo));
    if (proxy.resolves && fault === undefined) findings.push(await checkRule(proxy, config));
  }
  const { SOURCE_ADDRESSES: told } = config;
  if (told.length > 0) {
    const other = proxy === undefined ? publicAddressBeside(told) : undefined;
    const found =
      other === undefined
        ? `Receivers are told ${told.join(', ')}.`
        : `This machine has the address ${other}, which receivers are not told.`;
    const todo =
      'If notifications come from there, add it to SOURCE_ADDRESSES, and tell the customers first.';
    findings.push(finding('settings SOURCE_ADDRESSES', other === undefined ? 'ok' : 'warn', found, todo));
  }
  return findings;
}

/** How many clients' receivers are looked at; those of one network are one. */
const maxReceivers = 16;
/** A resolver that is dead keeps silent for 10 s about each name. */
const namesWithinMs = 5000;

/** Tries receivers that accepted something today with a bare connection: if none of several networks of several accounts takes it, the way out is closed. */
async function checkReceivers(db: Db, config: Config): Promise<Finding[]> {
  const policy = readTargetPolicy(config);
  const { clients } = await readClients(db);
  const since = Date.now() - answeredWithinMs;
  const lately = clients
    .filter(({ endpoint }) => (endpoint.lastSuccessAt ?? 0) > since)
    .slice(0, maxReceivers);
  const places = lately.map(async ({ clientToken, accountId }) => {
    const url = parseUrl((await getRegistration(db, clientToken))?.url ?? '');
    if (url === undefined) return [];
    const [host, port] = [hostOf(url), portOf(url)];
    const found = isIP(host) === 0 ? systemNames.lookup(host).catch(() => []) : [{ address: host }];
    const inTime = await withTimeout(Promise.resolve(found), namesWithinMs, () => []);
    return inTime.slice(0, 1).map(({ address }) => ({ accountId, address, port }));
  });
  const tries = new Map<string, Promise<boolean>>();
  const accounts = new Set<string>();
  for (const { accountId, address, port } of (await Promise.all(places)).flat()) {
    if (judgeAddress(address, port, policy) !== 'allowed') continue;
    accounts.add(accountId);
    const network = networkOf(address);
    tries.set(network, tries.get(network) ?? answersAt(address, port));
  }
  if (tries.size <= leastTried || accounts.size < leastAccounts) return [];
  const reached = (await Promise.all(tries.values())).filter(Boolean).length;
  const found = `${reached} of ${count(tries.size, 'receiver')} that accepted notifications today take a connection.`;
  const todo =
    'Nothing outside is reached: let this network connect to public addresses at port 443 (firewall, NAT, routes).';
  return [finding('receivers', reached === 0 ? 'fail' : 'ok', found, todo)];
}

/** A proxy that looks names up must refuse what the service refuses by address: it is tried with the operators' port. */
async function checkRule(proxy: OutgoingProxy, { ADMIN_HOST, ADMIN_PORT }: Config): Promise<Finding> {
  const hosts = [...new Set(['localhost', '127.0.0.1', '::1', hostname(), ADMIN_HOST])];
  const tryHost = async (host: string) => ({ host, way: await proxy.leadsTo(host, ADMIN_PORT) });
  const ways = await Promise.all(hosts.map(tryHost));
  const open = ways.filter(({ way }) => way === 'there').map(({ host }) => host);
  const isTried = ways.some(({ host, way }) => host === '127.0.0.1' && way === 'found no way');
  const found =
    open.length > 0
      ? `The proxy leads to the operators' port (ADMIN_PORT) at ${open.join(', ')}: a customer's URL could, too.`
      : isTried
        ? 'The proxy tries loopback addresses: it seems to have no rule against private ones.'
        : "The proxy refuses the operators' port.";
  const todo =
    'Have it refuse, after it has looked a name up, loopback, private and link-local addresses. Squid: acl private dst 0.0.0.0/8 10.0.0.0/8 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.168.0.0/16 ::1 fc00::/7 fe80::/10, then http_access deny private, before every allow.';
  const level = open.length > 0 ? 'fail' : isTried ? 'warn' : 'ok';
  return finding('settings OUTGOING_PROXY_RESOLVES', level, found, todo);
}

export const storeAcceptEmpty = actOperation({
  act: acceptEmpty,
  does: 'say that the store, which has lost its data, is meant to be empty',
  input: z.object({}),
  answers: z.object({ accepted: yesOrNo(true) }),
  shown: () => ['Every process serves again within 5 seconds. Nothing of the lost data comes back.'],
});
