import {
  condition,
  defineSignal,
  makeContinueAsNewFunc,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { Activities } from '../activities/index.js';
import { notificationStateKey, upkeepQueueOf } from '../src/temporal/workflowIds.js';
import type { Drained } from '../src/upkeep/drain.js';

const wakeSignal = defineSignal('wake');

/** Delivers one client's owed assets, until nothing waits. One workflow per client. */
export async function catchUp({ clientToken }: { clientToken: string }): Promise<void> {
  const { drain } = proxyActivities<Activities>({
    taskQueue: upkeepQueueOf(workflowInfo().taskQueue),
    startToCloseTimeout: '1m',
    heartbeatTimeout: '15s',
    summary: 'probe, or drain owed assets',
    retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' },
  });
  let woken = false;
  setHandler(wakeSignal, () => {
    woken = true;
  });
  let state = '';
  for (;;) {
    woken = false;
    const askedAt = Date.now();
    const drained = await drain(clientToken);
    // After a kill call or answer may have waited for another worker.
    const result = { ...drained, inMs: drained.inMs - (Date.now() - askedAt - drained.tookMs) };
    setCurrentDetails(describe(result));
    upsertMemo(makeMemo(clientToken, result));
    const shown = isDone(result) ? 'delivered' : result.reason;
    if (shown !== state) {
      state = shown;
      upsertSearchAttributes([{ key: notificationStateKey, value: state }]);
    }
    if (isDone(result)) {
      if (!woken) return;
    } else {
      await condition(() => woken, Math.max(result.inMs, 1));
    }
    if (workflowInfo().historyLength > 1000 || workflowInfo().continueAsNewSuggested) {
      // The new run has no summary: its memo describes it.
      const continueAsNew = makeContinueAsNewFunc<typeof catchUp>({ memo: makeMemo(clientToken, result) });
      await continueAsNew({ clientToken });
    }
  }
}

const isDone = ({ owed, replays }: Drained): boolean => owed === 0 && !replays;

/** Makes the memo, which operators can read even while no worker runs. */
function makeMemo(clientToken: string, result: Drained) {
  const { owed, oldestAt, inMs } = result;
  const what = `Catch-up: what ${clientToken} is owed`;
  if (isDone(result)) return { what, owed, since: null, why: 'nothing is owed any more', next: null };
  const [since, next] = [oldestAt, Date.now() + inMs].map((at) => new Date(at).toISOString());
  return { what, owed, since: owed === 0 ? null : since, why: explain(result), next };
}

const explain = ({ reason, replays, lastError }: Drained): string =>
  `${replays ? 'a replay runs, ' : ''}${reason}${lastError === undefined ? '' : ` (last error: ${lastError})`}`;

function describe(result: Drained): string {
  if (isDone(result)) return 'Nothing is owed any more.';
  const { owed, oldestAt, inMs } = result;
  const since = owed === 0 ? '' : ` since ${new Date(oldestAt).toISOString()}`;
  return `${owed} assets owed${since}: ${explain(result)}; looking again in ${Math.ceil(inMs / 1000)} s.`;
}
