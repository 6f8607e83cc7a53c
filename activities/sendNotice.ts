import type { Notice } from '../src/notices/notice.js';
import type { Sent, SoFar } from '../src/notices/send.js';
import type { ActivityDeps } from '../src/upkeep/deps.js';

/** Makes one attempt of a notice. URL and secret are read here: no history has them. */
export async function sendNotice({ notices }: ActivityDeps, notice: Notice, soFar: SoFar): Promise<Sent> {
  return await notices.send(notice, soFar);
}
