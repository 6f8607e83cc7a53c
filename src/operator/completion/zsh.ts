import { type Place, quoted, type Word } from './places.js';

export function zshCompletion(name: string, places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  return `#compdef ${name}
# Completes ${name} in zsh: source <(${name} completion zsh), after compinit
_${name}() {
  local at='' i
  local -a found
  for ((i = 2; i < CURRENT; i++)); do
    case "$at \${words[i]}" in
      ${paths.join(' | ')}) at+=" \${words[i]}" ;;
    esac
  done
  case "$at:\${words[CURRENT - 1]}" in
${places.flatMap(valuesOf).join('\n')}
    *)
      case "$at" in
${places.map(({ path, words }) => `        ${quoted(path)}) found=(${words.map(described).join(' ')}) ;;`).join('\n')}
      esac ;;
  esac
  if (( \${#found} )); then _describe ${quoted(name)} found; else _files; fi
}
compdef _${name} ${name}`;
}

/** A colon ends the word. */
function described({ word, description }: Word): string {
  return quoted(`${word.replaceAll(':', '\\:')}:${description.replaceAll(':', '\\:')}`);
}

function valuesOf({ path, values }: Place): string[] {
  return values.map(
    ({ option, choices }) =>
      `    ${quoted(`${path}:${option}`)}) found=(${choices.map(quoted).join(' ')}) ;;`,
  );
}
