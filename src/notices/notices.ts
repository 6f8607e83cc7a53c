import { type HandOverDeps, handOverNotices } from './handOver.js';
import type { Notice } from './notice.js';
import { type SendDeps, type Sent, type SoFar, sendNotice } from './send.js';

/** Tells accounts and the platform what changed about a client's endpoint or secret. */
export interface Notices {
  /**
   * Has the notices of a client told, soon: whoever calls waits for nothing. What is not handed to Temporal, because it is
   * away or much is to be told, is handed over by the sweep.
   */
  tell(clientToken: string): void;
  /** Hands the notices of a client to Temporal. @throws what Redis or Temporal throws; they are kept */
  handOver(clientToken: string): Promise<void>;
  /** Makes one attempt of a notice. @throws what Redis throws */
  send(notice: Notice, soFar: SoFar): Promise<Sent>;
}

/** So many clients at once in one process: the rest is the sweep's. */
const maxTelling = 50;

export function createNotices(deps: Omit<HandOverDeps, 'tellsPlatform'> & SendDeps): Notices {
  const tellsPlatform = deps.platform !== undefined;
  const handOver = (clientToken: string) => handOverNotices({ ...deps, tellsPlatform }, clientToken);
  /** By client token: whether there is something new to tell. */
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
