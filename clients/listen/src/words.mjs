/** Describes a request for a person at a terminal. */
import { styleText } from 'node:util';

/** @param {import('./receiver.mjs').Seen} seen */
export function inWords(seen) {
  const isGood = seen.signature === 'good';
  const verdict = isGood ? paint('green', 'good') : paint('red', 'BAD ');
  const facts = [
    shown(seen.webhook_id ?? 'no id'),
    ...(isGood ? [seen.duplicate ? paint('yellow', 'duplicate') : 'new'] : []),
    ...(seen.age_seconds === null ? [] : [`${seen.age_seconds} s old`]),
    ...(seen.client_token === null ? [] : [`client ${shown(seen.client_token)}`]),
  ];
  const lines = [
    `${paint('dim', seen.at.slice(11, 23))}  ${verdict}  ${facts.join('  ')}  ${answerInWords(seen)}`,
    ...(seen.why === undefined ? [] : [paint('red', shown(seen.why))]),
    `${seen.method} ${shown(seen.path)}`,
    ...(seen.body === '' ? [] : [shown(seen.body)]),
  ];
  return `${lines.join(`\n${' '.repeat(14)}`)}\n`;
}

/** @param {import('./updates.mjs').Update} update */
export function updateInWords({ platform_id: asset, notification_id: id = 'not notified', updated_at: at }) {
  return `${paint('dim', at.slice(11, 23))}  ${shown(asset)}  ${shown(id)}\n`;
}

/** @param {import('./forward.mjs').Forwarded} forwarded */
export function forwardedInWords(forwarded) {
  const { answered, why = '', after_ms: ms } = forwarded;
  const answer = answered === null ? paint('red', `no answer (${shown(why)})`) : `-> ${answered}`;
  return updateInWords(forwarded).replace(/\n$/, `  ${answer} after ${ms} ms\n`);
}

/** @param {import('./receiver.mjs').Seen} seen */
function answerInWords({ answered, after_ms: ms }) {
  if (answered === null) return paint('yellow', `the sender left after ${ms} ms`);
  return `-> ${answered} after ${ms} ms`;
}

/**
 * Escapes control characters, so that a stranger's request cannot control the terminal.
 * @param {string} text
 */
function shown(text) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are escaped here
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, escaped);
}

/** @param {string} character */
function escaped(character) {
  return `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
}

/**
 * Colours text, only at a terminal. Node reads NO_COLOR, FORCE_COLOR and TERM=dumb.
 * @param {'red' | 'yellow' | 'green' | 'dim'} colour
 * @param {string} text
 */
function paint(colour, text) {
  if (process.stdout.isTTY !== true || !process.stdout.hasColors()) return text;
  return styleText(colour, text, { validateStream: false });
}
