import type { Operator } from './operator.js';

/**
 * Makes the action of a command from a function of `src/operator/actions`, which gets the command's arguments after the
 * operator. `load` imports its module once the command runs.
 */
export type InSession = <Actions>(
  load: () => Promise<Actions>,
  pick: (actions: Actions) => (operator: Operator, ...given: never[]) => Promise<void> | void,
) => (...given: unknown[]) => Promise<void>;

/** Help, completion and wrong usage need no session, and neither load nor open anything. */
export function createInSession(open: () => Promise<Operator>): InSession {
  return (load, pick) =>
    async (...given) => {
      const [actions, operator] = await Promise.all([load(), open()]);
      // Before anything is done under this name.
      operator.checkName();
      // Untyped, as commander passes them.
      await pick(actions)(operator, ...(given as never[]));
    };
}
