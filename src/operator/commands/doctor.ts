import type { Config } from '../../config.js';
import { type Finding, fail, ok, warn } from '../doctor/finding.js';
import { checkRedis } from '../doctor/redis.js';
import { checkTemporal } from '../doctor/temporal.js';
import { type AddCommand, type Operator, Refused } from '../operator.js';
import { reasonOf } from '../reason.js';
import { table } from '../terminal/table.js';
import { amount } from '../terminal/words.js';

export function addDoctorCommand(add: AddCommand): void {
  add('doctor', 'check settings, Redis and Temporal; exit status 1 if a check fails', doctor);
}

async function doctor(operator: Operator): Promise<void> {
  const findings = await examine(operator);
  const levels = findings.map(({ level }) => level);
  const level = levels.includes('fail') ? 'fail' : levels.includes('warn') ? 'warn' : 'ok';
  operator.answer({ level, findings: findings.map(present) }, () => describe(findings));
  const failed = levels.filter((each) => each === 'fail').length;
  if (failed > 0) throw new Refused(`${amount(failed, 'check')} failed.`);
}

/** The longest calls to Temporal together, because a person waits. */
const temporalWithinMs = 10_000;

async function examine(operator: Operator): Promise<Finding[]> {
  let config: Config;
  try {
    config = operator.config();
  } catch (err) {
    const todo = 'Correct each setting that is named; .env.example lists all settings.';
    return [fail('settings', reasonOf(err), todo)];
  }
  const [ofRedis, ofTemporal] = await Promise.all([
    attempt('redis', 'Correct REDIS_URL, or start the server.', async () =>
      checkRedis(await operator.db(), config),
    ),
    attempt(
      'temporal',
      'Correct TEMPORAL_ADDRESS (and TEMPORAL_TLS, TEMPORAL_API_KEY), or start the server.',
      async () => {
        const temporal = await operator.temporal();
        return await temporal.connection.withDeadline(Date.now() + temporalWithinMs, () =>
          checkTemporal(temporal, config),
        );
      },
    ),
  ]);
  return [...checkSettings(config), ...ofRedis, ...ofTemporal];
}

/** A server that cannot be checked is a finding too. */
async function attempt(check: string, todo: string, look: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await look();
  } catch (err) {
    return [fail(check, reasonOf(err), todo)];
  }
}

function checkSettings({ SECRETS_KEY, ALLOW_HTTP_TARGETS, ALLOWED_TARGET_CIDRS }: Config): Finding[] {
  const allowed = [...(ALLOW_HTTP_TARGETS ? ['http'] : []), ...ALLOWED_TARGET_CIDRS];
  return [
    SECRETS_KEY !== undefined
      ? ok('settings SECRETS_KEY', `Signing secrets are encrypted with the key "${SECRETS_KEY[0]?.id}".`)
      : warn(
          'settings SECRETS_KEY',
          'There is no SECRETS_KEY: signing secrets are readable in Redis and in its backups.',
          'Set SECRETS_KEY to <id>:<base64 of 32 bytes>, for the service and for this command, then run: secrets reencrypt',
        ),
    allowed.length === 0
      ? ok('settings targets', 'Notifications go to public https addresses only.')
      : warn(
          'settings targets',
          `Notifications may also go to ${allowed.join(', ')}.`,
          'That is for trying the service out ("npm start" sets it). In production leave ALLOW_HTTP_TARGETS and ALLOWED_TARGET_CIDRS unset.',
        ),
  ];
}

const present = ({ check, level, found, todo }: Finding) => ({ check, level, found, do: todo ?? null });

const colours = { ok: 'green', warn: 'yellow', fail: 'red' } as const;

function describe(findings: readonly Finding[]): string {
  const lines = table(
    ['', 'CHECK', 'FOUND'],
    findings.map(({ level, check, found }) => [{ text: level, colour: colours[level] }, check, found]),
    '',
  );
  const todos = findings.filter((finding) => finding.todo !== undefined);
  if (todos.length === 0) return `${lines}\n\nEvery check is ok.`;
  return [lines, '', 'What to do:', ...todos.map(({ check, todo }) => `  ${check}: ${todo}`)].join('\n');
}
