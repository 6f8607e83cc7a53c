import { type HandOverDeps, handOverNotices } from './handOver.js';
import type { Notice } from './notice.js';
import { type SendDeps, type Sent, type SoFar, sendNotice } from './send.js';

/** Sends notices to accounts and the platform about changes of a client's endpoint or secret. */
export interface Notices {
  /**
   * Hands the notices of a client to Temporal soon, without a wait for the caller. If Temporal is unavailable, or too many
   * clients have notices, the sweep hands them over.
   */
  tell(clientToken: string): void;
  /** Hands the notices of a client to Temporal. @throws any error of Redis or Temporal; the notices are kept */
  handOver(clientToken: string): Promise<void>;
  /** Makes one attempt of a notice. @throws any error of Redis */
  send(notice: Notice, soFar: SoFar): Promise<Sent>;
}

/** Clients at the same time in one process; the sweep handles the rest. */
const maxTelling = 50;

export function createNotices(deps: HandOverDeps & SendDeps): Notices {
  const handOver = (clientToken: string) => handOverNotices(deps, clientToken);
  /** By client token: whether there is a new notice. */
  const telling = new Map<string, boolean>();

  async function tellAll(clientToken: string): Promise<void> {
    while (telling.get(clientToken)) {
      telling.set(clientToken, false);
      await handOver(clientToken);
    }
  }

  return {
    handOver,
    send: (notice, soFar) => sendNotice(deps, notice, soFar),
    tell(clientToken) {
      const isTelling = telling.has(clientToken);
      if (!isTelling && telling.size >= maxTelling) return;
      telling.set(clientToken, true);
      if (isTelling) return;
      void tellAll(clientToken)
        .catch((err: unknown) => {
          deps.log.warn(
            { err, client_token: clientToken },
            'a notice has no workflow yet; the sweep starts it',
          );
        })
        .finally(() => telling.delete(clientToken));
    },
  };
}
