import type { Command } from 'commander';
import { reencryptSigningSecrets } from '../store/reencrypt.js';
import { createSecretBox } from '../store/secretBox.js';
import type { Operator } from './operator.js';
import { Refused } from './refused.js';

export function addSecretsCommands(program: Command, operator: Operator): void {
  const secrets = program.command('secrets').description('how signing secrets are encrypted at rest');

  secrets
    .command('reencrypt')
    .description('put every signing secret under the first key of SECRETS_KEY')
    .action(async () => {
      const keys = operator.config().SECRETS_KEY;
      const [newest] = keys ?? [];
      if (newest === undefined) throw new Refused('SECRETS_KEY is not set: there is no key to encrypt with.');
      const counts = await reencryptSigningSecrets(await operator.db(), createSecretBox(keys));
      await operator.record({
        what: 'secrets reencrypt',
        target: newest.id,
        before: null,
        after: { reencrypted: counts.reencrypted, unreadable: counts.unreadable },
      });
      if (counts.unreadable.length > 0) {
        throw new Refused(
          `${counts.reencrypted} are under key "${newest.id}" now. SECRETS_KEY has no key for those of: ` +
            counts.unreadable.join(', '),
        );
      }
      operator.answer(
        { key_id: newest.id, reencrypted: counts.reencrypted, unchanged: counts.unchanged },
        () =>
          `${counts.reencrypted} signing secrets are under key "${newest.id}" now; ` +
          `${counts.unchanged} were already.`,
      );
    });
}
