import { type Finding, fail, type Level } from '../doctor/finding.js';
import { checkRedis } from '../doctor/redis.js';
import { checkService } from '../doctor/service.js';
import { checkSettings } from '../doctor/settings.js';
import { temporalWithinMs } from '../health/ownHealth.js';
import type { Operator } from '../operator.js';
import { reasonOf } from '../reason.js';
import { Refused } from '../refused.js';
import { amount } from '../terminal/amount.js';
import { table } from '../terminal/table.js';

export async function doctor(operator: Operator): Promise<void> {
  const findings = await examine(operator);
  const worst = worstOf(findings);
  operator.answer({ level: worst, findings: findings.map(present) }, () => describe(findings));
  const failed = findings.filter((finding) => finding.level === 'fail').length;
  if (failed > 0) throw new Refused(`${amount(failed, 'check')} failed.`);
}

async function examine(operator: Operator): Promise<Finding[]> {
  const settings = checkSettings(() => operator.config());
  if (settings.some((finding) => finding.level === 'fail')) return settings;
  // Loaded before a server is asked: loading Temporal's client takes time that would count as the server's.
  const { checkTemporal } = await import('../doctor/temporal.js');
  const [ofRedis, ofTemporal, ofService] = await Promise.all([
    attempt('redis', 'Correct REDIS_URL, or start the server.', async () => {
      return await checkRedis(await operator.db(), operator.config());
    }),
    attempt(
      'temporal',
      'Correct TEMPORAL_ADDRESS (and TEMPORAL_TLS, TEMPORAL_API_KEY), or start the server.',
      async () => {
        const temporal = await operator.temporal();
        return await temporal.connection.withDeadline(Date.now() + 2 * temporalWithinMs, () =>
          checkTemporal(temporal, operator.config()),
        );
      },
    ),
    checkService(operator.api()),
  ]);
  return [...settings, ...ofRedis, ...ofTemporal, ...ofService];
}

/** A server that cannot be checked is a finding too. */
async function attempt(check: string, todo: string, look: () => Promise<Finding[]>): Promise<Finding[]> {
  try {
    return await look();
  } catch (err) {
    return [fail(check, reasonOf(err), todo)];
  }
}

const present = ({ check, level, found, todo }: Finding) => ({ check, level, found, do: todo ?? null });

function worstOf(findings: readonly Finding[]): Level {
  const levels = findings.map((finding) => finding.level);
  return levels.includes('fail') ? 'fail' : levels.includes('warn') ? 'warn' : 'ok';
}

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
