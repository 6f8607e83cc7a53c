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

$seen = new PDO('sqlite:' . (getenv('DATABASE') ?: 'seen.sqlite')); // a table of your own database
$seen->exec('CREATE TABLE IF NOT EXISTS seen (webhook_id TEXT PRIMARY KEY)');
$insert = $seen->prepare('INSERT OR IGNORE INTO seen VALUES (?)');
$insert->execute([$_SERVER['HTTP_WEBHOOK_ID']]);
http_response_code(204);
if (function_exists('fastcgi_finish_request')) {
    fastcgi_finish_request(); // PHP-FPM sends the answer here; elsewhere leave the work to a queue
}
$notification = json_decode($body);
if ($insert->rowCount() === 1 && $notification->event === 'asset-update') {
    error_log("updated: $notification->platform_id"); // ask the platform for the segments of this video
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
