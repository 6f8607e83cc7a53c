import { createRequire } from 'node:module';

/** The name and the version of the service: those of package.json, the one place that has the version. */
export const product: { name: string; version: string } = createRequire(import.meta.url)('#manifest');
