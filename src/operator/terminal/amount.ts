/** Names a number of things: `1 client`, `2 clients`. */
export const amount = (n: number, one: string): string => `${n} ${n === 1 ? one : `${one}s`}`;
