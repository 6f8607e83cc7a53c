/**
 * How Node runs the service, as in package.json's scripts and the image: an event lives longer than the young generation
 * by its default size takes to fill, and would be copied again and again (docs/benchmarks/decisions.md).
 */
export const nodeFlags = ['--max-semi-space-size=64'];
