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
    const shown = result.owed === 0 ? 'delivered' : result.reason;
    if (shown !== state) {
      state = shown;
      upsertSearchAttributes([{ key: notificationStateKey, value: state }]);
    }
    if (result.owed === 0) {
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

/** Makes the memo, which operators can read even while no worker runs. */
function makeMemo(clientToken: string, result: Drained) {
  const { owed, oldestAt, inMs } = result;
  const what = `Catch-up: what ${clientToken} is owed`;
  if (owed === 0) return { what, owed, since: null, why: 'nothing is owed any more', next: null };
  const [since, next] = [oldestAt, Date.now() + inMs].map((at) => new Date(at).toISOString());
  return { what, owed, since, why: explain(result), next };
}

const explain = ({ reason, lastError }: Drained): string =>
  lastError === undefined ? reason : `${reason} (last error: ${lastError})`;

function describe(result: Drained): string {
  if (result.owed === 0) return 'Nothing is owed any more.';
  return (
    `${result.owed} assets owed since ${new Date(result.oldestAt).toISOString()}: ${explain(result)}; ` +
    `looking again in ${Math.ceil(result.inMs / 1000)} s.`
  );
}
