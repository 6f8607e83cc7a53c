import { readdir, readFile } from 'node:fs/promises';

/** Memory and open files of a process now; undefined if the system does not report them (no /proc). */
export async function figuresOf(pid: number): Promise<{ residentMb: number; files: number } | undefined> {
  try {
    const status = await readFile(`/proc/${pid}/status`, 'utf8');
    const files = (await readdir(`/proc/${pid}/fd`)).length;
    return { residentMb: Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024, files };
  } catch {
    return undefined;
  }
}

/** The slope of the least-squares line, per unit of x. */
export function slopeOf(points: readonly { x: number; y: number }[]): number {
  const mean = (of: (point: { x: number; y: number }) => number) =>
    points.reduce((sum, point) => sum + of(point), 0) / points.length;
  const [x, y] = [mean((p) => p.x), mean((p) => p.y)];
  const above = points.reduce((sum, p) => sum + (p.x - x) * (p.y - y), 0);
  return above / points.reduce((sum, p) => sum + (p.x - x) ** 2, 0);
}
