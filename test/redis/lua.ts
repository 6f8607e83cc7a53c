/** Reads names, words and calls of Lua for the tests of the scripts. Not a full parser: it knows only the Lua used here. */

const token = /--[^\n]*|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[A-Za-z_]\w*|\d+(?:\.\d+)?|\.\.|[=~<>]=|\S/g;
const isName = (text: string): boolean => /^[A-Za-z_]\w*$/.test(text) && !keywords.has(text);
const keywords = new Set(
  'and break do else elseif end false for function if in local nil not or repeat return then true until while'.split(
    ' ',
  ),
);

/** Returns the tokens of a script without its comments; strings with their quotes. */
export function tokensOf(lua: string): string[] {
  return (lua.match(token) ?? []).filter((one) => !one.startsWith('--'));
}

/** Returns the strings of a script, without quotes. */
export function stringsOf(lua: string): string[] {
  return tokensOf(lua)
    .filter((one) => /^['"]/.test(one))
    .map((one) => one.slice(1, -1));
}

/** Returns the variables of a script: how often each is named, and which of them are declared (in any scope). */
export function variablesOf(lua: string): { named: Map<string, number>; declared: Set<string> } {
  const tokens = tokensOf(lua);
  const named = new Map<string, number>();
  const declared = new Set<string>();
  const open: string[] = [];
  tokens.forEach((one, i) => {
    if ('([{'.includes(one)) open.push(one);
    if (')]}'.includes(one)) open.pop();
    if (one === 'local' || one === 'for') declareFrom(i + 1);
    if (one === 'function') declareFrom(tokens.indexOf('(', i) + 1);
    const isField = tokens[i - 1] === '.' || (open.at(-1) === '{' && tokens[i + 1] === '=');
    if (isName(one) && !isField) named.set(one, (named.get(one) ?? 0) + 1);
  });
  return { named, declared };

  function declareFrom(start: number): void {
    let i = tokens[start] === 'function' ? start + 1 : start;
    while (isName(tokens[i] ?? '')) {
      declared.add(tokens[i] as string);
      if (tokens[i + 1] !== ',') return;
      i += 2;
    }
  }
}

/** Returns the arguments of each call of a function, as they are written. */
export function callsOf(lua: string, name: string): string[][] {
  const tokens = tokensOf(lua);
  const calls: string[][] = [];
  const path = tokensOf(name);
  for (let i = 0; i < tokens.length; i++) {
    if (!path.every((part, n) => tokens[i + n] === part) || tokens[i + path.length] !== '(') continue;
    if (tokens[i - 1] === 'function') continue;
    const args: string[][] = [[]];
    let depth = 1;
    for (let at = i + path.length + 1; depth > 0 && at < tokens.length; at++) {
      const one = tokens[at] as string;
      if ('([{'.includes(one)) depth++;
      if (')]}'.includes(one)) depth--;
      if (depth === 1 && one === ',') args.push([]);
      else if (depth > 0) args.at(-1)?.push(one);
    }
    calls.push(args.map((arg) => arg.join(' ')));
  }
  return calls;
}
