import { type Place, quoted } from './places.js';

/** If the values of an option are unknown, bash completes file names. */
export function bashCompletion(name: string, places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  return `# Completes ${name} in bash: source <(${name} completion bash)
_${name}() {
  local at='' words='' i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$at \${COMP_WORDS[i]}" in
      ${paths.join(' | ')}) at+=" \${COMP_WORDS[i]}" ;;
    esac
  done
  case "$at:\${COMP_WORDS[COMP_CWORD - 1]}" in
${places.flatMap(valuesOf).join('\n')}
    *)
      case "$at" in
${places.map(({ path, words }) => `        ${quoted(path)}) words=${quoted(words.map((w) => w.word).join(' '))} ;;`).join('\n')}
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o bashdefault -o default -F _${name} ${name}`;
}

function valuesOf({ path, values }: Place): string[] {
  return values.map(
    ({ option, choices }) => `    ${quoted(`${path}:${option}`)}) words=${quoted(choices.join(' '))} ;;`,
  );
}
