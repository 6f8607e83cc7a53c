/** Started services and servers, to be stopped at the end. */
export interface StopList {
  add(stoppable: { stop(): Promise<void> }): void;
  /** Stops all of them, the newest first. */
  stop(): Promise<void>;
}

export function stopList(): StopList {
  const started: { stop(): Promise<void> }[] = [];
  return {
    add: (stoppable) => {
      started.push(stoppable);
    },
    stop: async () => {
      for (const stoppable of started.splice(0).reverse()) await stoppable.stop();
    },
  };
}
