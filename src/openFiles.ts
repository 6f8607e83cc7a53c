/** Shares the files that this process may open. Reading their number takes 13 ms: no command that sends nothing loads this. */

const report = process.report.getReport() as { userLimits?: { open_files: { soft: number | 'unlimited' } } };
export const openFiles = Number(report.userLimits?.open_files.soft) || Infinity;

/** The service itself opens 51, and three for each node of a cluster. Without a free one, Temporal's library ends the process. */
const shared = Math.max(20, Math.min(openFiles - 100, openFiles * 0.95));
/** To receivers, as `maxSockets` in outgoing/connections.ts. */
export const maxSockets = Math.min(4000, Math.floor((shared * 4) / 19));
/** From callers. */
export const maxConnections = Math.min(15_000, Math.floor((shared * 15) / 19));
