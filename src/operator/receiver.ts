/** Sends a client's receiver tests, which affect nothing else. */
import { z } from 'zod';
import { judge, presentAnswer, sendChecks, sendTest } from '../api/endpoints/receiverChecks.js';
import { answeredRequest, text } from '../api/reference/schemas.js';
import { readTargetPolicy } from '../outgoing/address.js';
import { checkTarget, originOf } from '../outgoing/target.js';
import { getRegistration } from '../redis/records/registrations.js';
import { createSecretBox } from '../redis/records/secretBox.js';
import { createSigningSecret, readSecrets } from '../redis/records/secrets.js';
import { anyClient, option } from './input.js';
import { answer, type Operator, operation, Refused, requireClient } from './operation.js';
import { tableOf } from './terminal.js';

const input = z.object({
  client_token: anyClient,
  url: option('<url>', 'where to, if not to the registered URL', z.string().optional()),
});
type Given = z.output<typeof input>;

/** Finds where a test goes, and records it: as a publisher's test, with the client's own headers to no other URL than the registered. */
async function targetOf(operator: Operator, what: string, { client_token: clientToken, url }: Given) {
  await requireClient(operator, clientToken);
  const db = await operator.db();
  const box = createSecretBox(operator.config().SECRETS_KEY);
  const registered = (await getRegistration(db, clientToken))?.url;
  const to = url ?? registered;
  if (to === undefined) throw new Refused(`${clientToken} has no URL: give one.`, 'not_registered');
  if (to !== registered) await checkTarget(to, readTargetPolicy(operator.config()));
  await operator.record(what, clientToken, null, { url: originOf(to) });
  await createSigningSecret(db, box, clientToken);
  const { signing, headers } = await readSecrets(db, box, clientToken);
  return { url: to, clientToken, secrets: signing, own: to !== registered && registered ? {} : headers };
}

export const registrationTest = operation({
  command: 'registration test <token>',
  does: 'send one test notification now; it counts for nothing else',
  role: 'support',
  input,
  answers: answeredRequest.extend({ client_token: anyClient }),
  async run(operator, given) {
    const target = await targetOf(operator, 'registration test', given);
    const { result } = await sendTest(await operator.sender(), target);
    return answer({ client_token: given.client_token, ...presentAnswer(result) });
  },
});

export const registrationCheck = operation({
  command: 'registration check <token>',
  does: 'send five tests, good and bad, and say what the receiver does wrong',
  role: 'support',
  input,
  answers: z.object({
    client_token: anyClient,
    checks: z.array(z.object({ name: text('good'), verdict: text('ok'), advice: text('Nothing to do.') })),
  }),
  async run(operator, given) {
    const target = await targetOf(operator, 'registration check', given);
    const sent = await sendChecks(await operator.sender(), target);
    const judged = judge(sent, operator.config().ATTEMPT_TIMEOUT_SECONDS * 500);
    const checks = judged.map(({ verdict, name, advice }) => ({ verdict, name, advice }));
    return answer({ client_token: given.client_token, checks }, { ...tableOf(checks, ''), isCut: false });
  },
});
