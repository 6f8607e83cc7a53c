/** Queues items of several clients. `next` takes the oldest item of each client in turn. */
export class Turns<T> {
  /** In the order of their turns; a client without items is not in it. */
  readonly #byClient = new Map<string, Set<T>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(client: string, item: T): void {
    const items = this.#byClient.get(client);
    if (items === undefined) this.#byClient.set(client, new Set([item]));
    else items.add(item);
    this.#size++;
  }

  delete(client: string, item: T): void {
    const items = this.#byClient.get(client);
    if (!items?.delete(item)) return;
    if (items.size === 0) this.#byClient.delete(client);
    this.#size--;
  }

  next(): T | undefined {
    for (const [client, items] of this.#byClient) {
      this.#byClient.delete(client);
      for (const item of items) {
        items.delete(item);
        if (items.size > 0) this.#byClient.set(client, items);
        this.#size--;
        return item;
      }
    }
    return undefined;
  }
}
