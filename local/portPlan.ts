import { freePort, isPortTaken } from './ports.js';

/** Assigns ports: the requested one if it is free, else another, and says so. */
export class PortPlan {
  readonly #given = new Set<number>();

  constructor(private readonly say: (line: string) => void) {}

  /** @throws Error if the port is taken */
  async exactly(variable: string, port: number, host: string): Promise<number> {
    if (await isPortTaken(port, host)) {
      throw new Error(
        `port ${port} is taken: stop the process that listens there, or set ${variable} to another port`,
      );
    }
    this.#given.add(port);
    return port;
  }

  async preferably(variable: string, usual: number): Promise<number> {
    const wanted = readPort(variable) ?? usual;
    const taken = this.#given.has(wanted) || (await isPortTaken(wanted));
    const port = taken ? await this.#another() : wanted;
    if (taken) this.say(`port ${wanted} is taken, ${variable} is ${port} this time`);
    this.#given.add(port);
    return port;
  }

  all(): number[] {
    return [...this.#given];
  }

  async #another(): Promise<number> {
    const port = await freePort();
    return this.#given.has(port) ? this.#another() : port;
  }
}

function readPort(variable: string): number | undefined {
  const text = process.env[variable];
  if (!text) return undefined;
  const port = Number(text);
  if (!Number.isInteger(port) || port < 1 || port > 65_535)
    throw new Error(`${variable} must be a port, 1 to 65535`);
  return port;
}
