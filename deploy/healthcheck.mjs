/**
 * A container's health check: `node healthcheck.mjs <url>` exits with 0 when the URL answers 2xx within 2 s.
 * The image has no curl.
 */
const [url] = process.argv.slice(2);

try {
  const response = await fetch(url, { signal: AbortSignal.timeout(2000), redirect: 'manual' });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
} catch (err) {
  console.error(`${url}: ${err.cause?.code ?? err.message}`);
  process.exitCode = 1;
}
