import type { Command } from 'commander';
import type { ClientToken } from '../../ids.js';
import { reencryptSigningSecrets } from '../../redis/records/reencrypt.js';
import { createSecretBox } from '../../redis/records/secretBox.js';
import type { Operator } from '../operator.js';
import { Refused } from '../refused.js';
import { parseClientToken, requireClient } from '../requireClient.js';
import { rotateOrRefuse } from '../rotateOrRefuse.js';
import { counted, withProgress } from '../terminal/progress.js';

export function addSecretsCommands(program: Command, operator: Operator): void {
  const secrets = program.command('secrets').description('encrypt or rotate signing secrets');

  secrets
    .command('reencrypt')
    .description('encrypt every signing secret and request header with the first key of SECRETS_KEY')
    .action(async () => {
      const keys = operator.config().SECRETS_KEY;
      const [newest] = keys ?? [];
      if (newest === undefined) throw new Refused('SECRETS_KEY is not set: there is no key to encrypt with.');
      const db = await operator.db();
      let progress = '';
      const counts = await withProgress(
        () => `Reencrypting: ${progress}`,
        () =>
          reencryptSigningSecrets(db, createSecretBox(keys), (done, all) => {
            progress = `${counted(done)} of ${counted(all)} clients and accounts`;
          }),
      );
      await operator.record({
        what: 'secrets reencrypt',
        target: newest.id,
        before: null,
        after: { reencrypted: counts.reencrypted, unreadable: counts.unreadable },
      });
      if (counts.unreadable.length > 0) {
        throw new Refused(
          `${counts.reencrypted} are now encrypted with the key "${newest.id}". SECRETS_KEY has no key for the secrets of: ` +
            counts.unreadable.join(', '),
        );
      }
      operator.answer(
        { key_id: newest.id, reencrypted: counts.reencrypted, unchanged: counts.unchanged },
        () =>
          `${counts.reencrypted} signing secrets and request headers are now encrypted with the key "${newest.id}"; ` +
          `${counts.unchanged} were already.`,
      );
    });

  secrets
    .command('rotate')
    .description("replace a client's signing secret; the old one also signs for 24 h")
    .argument('<token>', 'the client', parseClientToken)
    .option('--now', 'the old one and every earlier one end immediately')
    .action(async (token: ClientToken, { now = false }: { now?: boolean }) => {
      await requireClient(operator, token);
      const until = await rotateOrRefuse(operator, { owner: token, name: token, now });
      await operator.record({
        what: 'secrets rotate',
        target: token,
        before: null,
        after: { old_ones_end: now ? 'now' : 'in 24 h' },
      });
      operator.answer(
        { client_token: token, previous_valid_until: until ?? null },
        () =>
          `${token} has a new signing secret; its publisher reads it with GET /push_notifications/signing_secret. ` +
          (now ? 'Every earlier one has ended.' : 'The old one also signs for 24 h.'),
      );
    });
}
