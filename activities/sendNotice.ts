import type { Notice } from '../src/notices/notice.js';
import type { Sent, SoFar } from '../src/notices/send.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';

/** Makes one attempt of a notice. It reads the URL and the secrets itself, so that no history contains them. */
export async function sendNotice({ notices }: ActivityDeps, notice: Notice, soFar: SoFar): Promise<Sent> {
  return await notices.send(notice, soFar);
}
