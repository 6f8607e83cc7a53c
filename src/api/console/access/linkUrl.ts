/**
 * After `#` the token stays in the browser: no log of a proxy, no `Referer` and no preview of a chat has it, and a
 * program that fetches the address does not use up the link.
 */
export const linkUrl = (origin: string, token: string): string => `${origin}/console/open#${token}`;
