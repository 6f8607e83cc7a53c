/** A receiver of Alertmanager's webhooks: prints each alert as one line. */
import { createServer } from 'node:http';
import { json } from 'node:stream/consumers';

createServer(async (req, res) => {
  const { alerts = [] } = req.method === 'POST' ? await json(req).catch(() => ({})) : {};
  for (const { status, labels, annotations } of alerts)
    console.log(
      `${status} ${labels.severity} ${labels.alertname}: ${annotations.summary} (${annotations.runbook_url})`,
    );
  res.end();
}).listen(8080);
