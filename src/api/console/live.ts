import { type Html, html, type Piece } from './html.js';

/** `changed`: when something of the site has; `30 s`: where nobody tells. */
const triggers = { changed: 'changed from:body', '30 s': 'every 30s' } as const;

/** The part of a page that is fetched anew and put in its place. An error in the meantime leaves what is shown. */
export const live = (url: string, when: keyof typeof triggers, content: Piece): Html =>
  html`<div id="live" hx-get="${url}" hx-trigger="${triggers[when]}" hx-select="#live" hx-swap="outerMorph" hx-status:4xx="swap:none" hx-status:5xx="swap:none">${content}</div>`;
