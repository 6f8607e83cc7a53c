/**
 * Shares one read among callers who ask for the same at the same time. A caller who asks during a read gets the next one,
 * which begins after the call: no answer is older than its question.
 */
export function shareReads<T>(read: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const reads = new Map<string, { ended: Promise<void>; next?: Promise<T> }>();

  function begin(key: string): Promise<T> {
    const answer = read(key);
    const ended = answer.then(
      () => undefined,
      () => undefined,
    );
    const own: { ended: Promise<void>; next?: Promise<T> } = { ended };
    reads.set(key, own);
    void ended.then(() => {
      if (own.next === undefined) reads.delete(key);
    });
    return answer;
  }

  return (key) => {
    const underWay = reads.get(key);
    if (underWay === undefined) return begin(key);
    underWay.next ??= underWay.ended.then(() => begin(key));
    return underWay.next;
  };
}
