/** The audit: by person, customer, operation and time, as a page and as CSV. */
import { html, type Piece } from '../api/console/html.js';
import { answerPage } from '../api/console/page.js';
import type { StepContext } from '../api/step.js';
import { parseParameters } from '../api/steps/query.js';
import { audit } from '../operator/audit.js';
import { type Answer, whole } from '../operator/operation.js';
import { checkedInput } from './calls.js';
import { filledIn, operationForm, shownParts } from './forms.js';
import type { DeskPage, PersonState } from './people.js';

const shownAtMost = 200;

/** Returns the entries that the query asks for: of the last week if it names no time and nobody. */
async function entries(ctx: StepContext<PersonState>) {
  const given = filledIn(parseParameters(ctx.querystring));
  const isOfWeek = !('since' in given || 'until' in given || 'of' in given);
  const asked = isOfWeek ? { since: '7d', ...given } : given;
  const answer = await audit.run(ctx.state.operator(), checkedInput(audit, asked), whole);
  return { typed: given, query: String(new URLSearchParams(asked)), answer, isOfWeek };
}

/** GET /desk/audit: the newest first. */
export const auditPage: DeskPage = async (ctx) => {
  const { typed, query, answer, isOfWeek } = await entries(ctx);
  const { length } = answer.value as unknown[];
  const filter = operationForm(ctx.state, audit, { label: 'Filter', action: '/desk/audit', typed });
  const says = html`<p>${length.toLocaleString('en')} entries${isOfWeek && ' of the last 7 days'}${length > shownAtMost && `; the newest ${shownAtMost} are shown`}. <a href="/desk/audit.csv?${query}">All of them as CSV</a></p>`;
  answerPage(ctx, { title: 'Audit', body: [filter, says, newestOf(answer, shownAtMost)] });
};

/** Shows the last rows of an answer's table, the last one first. */
export const newestOf = ({ shown }: Answer, atMost: number): Piece =>
  shownParts(
    shown.map((part) =>
      typeof part === 'object' && 'rows' in part
        ? { ...part, rows: part.rows.slice(-atMost).reverse() }
        : part,
    ),
  );

const columns = 'at who what target before after why account_id address request_id'.split(' ');

/** GET /desk/audit.csv */
export const auditCsv: DeskPage = async (ctx) => {
  const { answer } = await entries(ctx);
  const lines = (answer.value as Record<string, unknown>[]).map((entry) =>
    columns.map((name) => cell(entry[name])),
  );
  ctx.attachment('audit.csv');
  ctx.type = 'text/csv; charset=utf-8';
  // Excel recognises UTF-8 by its mark only.
  ctx.body = `\ufeff${[columns, ...lines].map((line) => `${line.join(',')}\r\n`).join('')}`;
};

/** RFC 4180. A program for tables takes a cell that begins with one of these for a formula. */
function cell(value: unknown): string {
  const text = typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value);
  return `"${text.replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
}
