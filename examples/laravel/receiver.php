<?php // app/Http/Controllers/NotificationController.php of a Laravel app, with SIGNING_SECRETS="whsec_..." in its environment
// routes/web.php: Route::post('notifications', NotificationController::class)->withoutMiddleware(ValidateCsrfToken::class);
declare(strict_types=1);

namespace App\Http\Controllers;

use Illuminate\Http\Request;
use Illuminate\Http\Response;
use Illuminate\Support\Facades\Cache;
use Illuminate\Support\Facades\Log;

final class NotificationController
{
    public function __invoke(Request $request): Response
    {
        $body = $request->getContent(); // the bytes as they were sent: what is signed
        if (!self::verified($request, $body)) {
            return new Response('', 401);
        }
        // In production: a table with webhook-id as its primary key. A cache may forget the id.
        $key = 'notification:' . $request->header('webhook-id');
        if (!Cache::has($key)) {
            $notification = json_decode($body);
            if ($notification->event === 'asset-update') {
                // Give the work to a queue that is kept (database, Redis): ask the platform for the segments of this video.
                dispatch(static fn () => Log::info("updated: $notification->platform_id"));
            }
            Cache::put($key, true, now()->addDays(30)); // once the queue has it: else the next attempt would find it done
        }

        return new Response('', 204);
    }

    /** Whether a secret (several, separated by spaces, while you change them) made one of the signatures, at most 5 minutes ago. */
    private static function verified(Request $request, string $body): bool
    {
        $header = fn (string $name): string => $request->header("webhook-$name", '');
        [$id, $time, $signatures] = [$header('id'), $header('timestamp'), $header('signature')];
        $secrets = explode(' ', (string) env('SIGNING_SECRETS')); // config() where you cache it
        $keys = array_map(fn ($secret) => base64_decode(substr($secret, strlen('whsec_'))), $secrets);
        $keys = array_filter($keys, fn ($key) => strlen($key) >= 24); // with an empty key anybody could sign
        if ($keys === []) {
            throw new \RuntimeException('SIGNING_SECRETS has no signing secret (whsec_...)');
        }
        if ($id === '' || !ctype_digit($time) || abs(time() - (int) $time) > 300) {
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
}
