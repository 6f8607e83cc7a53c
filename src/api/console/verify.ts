/** Whole receivers to paste, which verify each notification: the files under `examples/`, which the tests run. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Middleware } from 'koa';
import type { ApiDeps } from '../step.js';
import { html } from './html.js';
import { sitePage, siteUrl } from './site.js';

/** A build copies them into `dist`. */
const examples = join(import.meta.dirname, '../../../examples');

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
export const verifyPage = (deps: ApiDeps): Middleware[] =>
  sitePage(
    deps,
    '/verify',
    ({ state }) =>
      html`<p>Each notification is signed as <a href="https://www.standardwebhooks.com" rel="noreferrer">Standard Webhooks</a> says, so that your receiver can tell ours from anybody else’s. One of their libraries does it, or a few lines of your own. Each of these is a whole receiver:</p>
<ul><li>Check the <strong>bytes of the body as they arrived</strong>, before anything parses them.</li><li>The secret is on the page <a href="${siteUrl(state.client.clientToken)}/actions">Actions</a>; keep it where your other secrets are.</li><li>While a secret is being changed, a notification carries several signatures: one that fits is enough.</li></ul>
${receivers}`,
  );
