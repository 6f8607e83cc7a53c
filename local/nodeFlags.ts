/**
 * Node's flags for the service, as in package.json's scripts and the image: a young generation of default size fills
 * while an event is alive, and would copy it again and again; several threads that collect it take more CPU than one
 * (docs/benchmarks/decisions.md).
 */
export const nodeFlags = ['--max-semi-space-size=64', '--no-parallel-scavenge'];
