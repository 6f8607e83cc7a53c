/** Colours, only at a terminal. Node reads NO_COLOR, FORCE_COLOR and TERM=dumb. */
import { styleText } from 'node:util';

export type Colour = 'red' | 'yellow' | 'green' | 'dim' | 'bold' | 'cyan';

/** On standard output. */
export function paint(colour: Colour | undefined, text: string): string {
  return colour !== undefined && showsColours() ? styled(colour, text) : text;
}

/** Colours always: commander removes colours by itself without a terminal. */
export function styled(colour: Colour, text: string): string {
  return styleText(colour, text, { validateStream: false });
}

function showsColours(): boolean {
  return process.stdout.isTTY === true && process.stdout.hasColors();
}
