import { InvalidArgumentError } from 'commander';
import type { Pids } from './processUsage.js';

/** @throws InvalidArgumentError */
export function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new InvalidArgumentError('must be a positive number');
  return value;
}

/** Adds a `<name>=<pid>` to those given before. @throws InvalidArgumentError */
export function pidOption(text: string, before: Pids): Pids {
  const [name, pid] = text.split('=');
  if (!name || !Number.isInteger(Number(pid))) throw new InvalidArgumentError('must be <name>=<pid>');
  return { ...before, [name]: Number(pid) };
}
