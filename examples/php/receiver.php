<?php // SIGNING_SECRETS="whsec_..." php -S 127.0.0.1:4000 receiver.php    (PHP 8.1 or newer, with pdo_sqlite)
declare(strict_types=1);

http_response_code(500); // until it is stored: PHP answers 200 to an error that it displays
// Several, separated by spaces, while you change from one secret to the next.
$keys = array_map(fn ($secret) => base64_decode(substr($secret, strlen('whsec_'))), explode(' ', (string) getenv('SIGNING_SECRETS')));
$keys = array_filter($keys, fn ($key) => strlen($key) >= 24); // with an empty key anybody could sign
if ($keys === []) {
    error_log('SIGNING_SECRETS has no signing secret (whsec_...)');
    exit;
}
$body = file_get_contents('php://input'); // the bytes as they were sent: what is signed
if (!verified($keys, $body)) {
    http_response_code(401);
    exit;
}

$store = new PDO('sqlite:' . (getenv('DATABASE') ?: 'notifications.sqlite')); // a table of your own database
$store->exec('CREATE TABLE IF NOT EXISTS notifications (webhook_id TEXT PRIMARY KEY, body TEXT, done INTEGER DEFAULT 0)');
$store->prepare('INSERT OR IGNORE INTO notifications (webhook_id, body) VALUES (?, ?)')->execute([$_SERVER['HTTP_WEBHOOK_ID'], $body]);
http_response_code(204);
if (function_exists('fastcgi_finish_request')) {
    fastcgi_finish_request(); // PHP-FPM sends the answer here; elsewhere leave the work to a queue
}
// The work of an earlier request that did not come to its end is in the table, too. Two processes may do the same work.
foreach ($store->query('SELECT webhook_id, body FROM notifications WHERE done = 0')->fetchAll() as [$id, $stored]) {
    $notification = json_decode($stored);
    if ($notification->event === 'asset-update') {
        error_log("updated: $notification->platform_id"); // ask the platform for the segments of this video
    }
    $store->prepare('UPDATE notifications SET done = 1 WHERE webhook_id = ?')->execute([$id]);
}

/** Whether one of the keys made one of the signatures, at most 5 minutes ago. */
function verified(array $keys, string $body): bool
{
    $header = fn (string $name): string => $_SERVER["HTTP_WEBHOOK_$name"] ?? '';
    [$id, $time, $signatures] = [$header('ID'), $header('TIMESTAMP'), $header('SIGNATURE')];
    if (!ctype_digit($time) || abs(time() - (int) $time) > 300) {
        return false;
    }
    foreach ($keys as $key) {
        $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$time.$body", $key, true));
        foreach (explode(' ', $signatures) as $signature) {
            if (hash_equals($expected, $signature)) {
                return true;
            }
        }
    }
    return false;
}
