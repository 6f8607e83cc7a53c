/** Checks of the settings, as this command reads them. */
import type { Config } from '../../config.js';
import { reasonOf } from '../reason.js';
import { type Finding, fail, ok, warn } from './finding.js';

/** @param read throws if the settings are wrong */
export function checkSettings(read: () => Config): Finding[] {
  let config: Config;
  try {
    config = read();
  } catch (err) {
    return [
      fail('settings', reasonOf(err), 'Correct each setting that is named; .env.example lists all settings.'),
    ];
  }
  return [
    ok('settings', 'Every setting can be read.'),
    ofSecretsKey(config),
    ofTargets(config),
    ofRetention(config),
  ];
}

function ofSecretsKey({ SECRETS_KEY }: Config): Finding {
  const check = 'settings SECRETS_KEY';
  if (SECRETS_KEY !== undefined) {
    return ok(check, `Signing secrets are encrypted with the key "${SECRETS_KEY[0]?.id}".`);
  }
  return warn(
    check,
    'There is no SECRETS_KEY: signing secrets are readable in Redis and in its backups.',
    'Set SECRETS_KEY to <id>:<base64 of 32 bytes>, for the service and for this command, then run: secrets reencrypt',
  );
}

function ofTargets({ ALLOW_HTTP_TARGETS, ALLOWED_TARGET_CIDRS }: Config): Finding {
  const check = 'settings targets';
  const allowed = [...(ALLOW_HTTP_TARGETS ? ['http'] : []), ...ALLOWED_TARGET_CIDRS];
  if (allowed.length === 0) return ok(check, 'Notifications go to public https addresses only.');
  return warn(
    check,
    `Notifications may also go to ${allowed.join(', ')}.`,
    'That is for trying the service out ("npm start" sets it). In production leave ALLOW_HTTP_TARGETS and ALLOWED_TARGET_CIDRS unset.',
  );
}

function ofRetention({ retryWindowMs, OWED_RETENTION_DAYS }: Config): Finding {
  const check = 'settings retention';
  const found = `Assets are owed for ${OWED_RETENTION_DAYS} days.`;
  const fewest = retryWindowMs / 86_400_000;
  if (OWED_RETENTION_DAYS >= fewest) return ok(check, found);
  return warn(
    check,
    found,
    `Raise OWED_RETENTION_DAYS to at least ${fewest}: notifications are tried for that long.`,
  );
}
