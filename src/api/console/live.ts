import { type Html, html, type Piece } from './html.js';

/** `changed`: after each change of the site; `30 s`: for a page without an announcement of changes. */
const triggers = { changed: 'changed from:body', '30 s': 'every 30s' } as const;

/** The part of a page that is fetched again and replaced. After an error the present part stays. */
export const live = (url: string, when: keyof typeof triggers, content: Piece): Html =>
  html`<div id="live" hx-get="${url}" hx-trigger="${triggers[when]}" hx-select="#live" hx-swap="outerMorph" hx-status:4xx="swap:none" hx-status:5xx="swap:none">${content}</div>`;
