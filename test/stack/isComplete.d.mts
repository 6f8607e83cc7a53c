/** Whether the stack can run here. */
export function isComplete(): boolean;
