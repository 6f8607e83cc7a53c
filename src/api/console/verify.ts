/** Shows receivers to paste. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { html } from '../../web/html.js';
import type { SitePart } from '../../web/site.js';

/** A build copies the examples into `dist`. */
const examples = join(import.meta.dirname, '../../../examples');

/** Whole receivers, which the tests run. */
const files = {
  Node: 'node/receiver.mjs',
  Python: 'python/receiver.py',
  Go: 'go/receiver.go',
  PHP: 'php/receiver.php',
  Java: 'java/Receiver.java',
  'C#': 'csharp/Receiver.cs',
};

const receivers = Object.entries(files).map(
  ([language, file]) =>
    html`<details><summary>${language}</summary><pre id="${file}">${readFileSync(join(examples, file), 'utf8')}</pre><p><button type="button" class="quiet" data-copies="${file}">Copy ${language}</button></p></details>
`,
);

/** GET /console/sites/{site}/verify */
export const verify: SitePart = ({ here }) =>
  html`<p>Each notification is signed as <a href="https://www.standardwebhooks.com" rel="noreferrer">Standard Webhooks</a> says, so that your receiver can tell ours from anybody else’s. One of their libraries does it, or a few lines of your own. Each of these is a whole receiver:</p>
<ul><li>Check the <strong>bytes of the body as they arrived</strong>, before anything parses them.</li><li>The secret is on the page <a href="${here}/actions">Actions</a>; keep it where your other secrets are.</li><li>While a secret is being changed, a notification carries several signatures: one that fits is enough.</li></ul>
${receivers}`;
