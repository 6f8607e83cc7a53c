/**
 * Behind `#` the token stays in the browser: no log of a proxy, no `Referer` and no preview of a chat has it, and
 * whoever fetches the address without being a browser does not use the link up.
 */
export const linkUrl = (origin: string, token: string): string => `${origin}/console/open#${token}`;
