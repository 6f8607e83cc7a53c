<?php // A Laravel app with nothing but the example's route, on the framework of Debian's package php-laravel-framework.
declare(strict_types=1);

use App\Http\Controllers\NotificationController;
use Illuminate\Contracts\Http\Kernel as HttpKernel;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Http\Kernel;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Facade;

require '/usr/share/php/Illuminate/autoload.php';
require __DIR__ . '/NotificationController.php';

$app = new Application(__DIR__);
$app->singleton(HttpKernel::class, fn ($app) => new class($app, $app['router']) extends Kernel {
    protected $bootstrappers = [];
});
$app->instance('config', new Illuminate\Config\Repository([
    'app' => [],
    'cache' => ['default' => 'file', 'stores' => ['file' => ['driver' => 'file', 'path' => __DIR__ . '/cache']]],
    'queue' => ['default' => $_GET['queue'] ?? 'sync', 'connections' => ['sync' => ['driver' => 'sync']]],
    'logging' => ['default' => 'errorlog', 'channels' => ['errorlog' => ['driver' => 'errorlog']]],
]));
foreach ([Illuminate\Cache\CacheServiceProvider::class, Illuminate\Filesystem\FilesystemServiceProvider::class,
    Illuminate\Bus\BusServiceProvider::class, Illuminate\Queue\QueueServiceProvider::class] as $provider) {
    $app->register($provider);
}
Facade::setFacadeApplication($app);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
$app['router']->post('notifications', NotificationController::class);
$kernel = $app->make(HttpKernel::class);
$response = $kernel->handle($request = Request::capture());
$response->send();
$kernel->terminate($request, $response);
