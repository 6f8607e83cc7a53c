<?php
// php callers.php <client>: what the client is answered, as one line of JSON
$api = getenv('API');
$client = getenv('CLIENT_TOKEN');

function with_curl(string $url, array $headers, string $body): array
{
    $asked = curl_init($url);
    curl_setopt_array($asked, [CURLOPT_POSTFIELDS => $body, CURLOPT_HTTPHEADER => $headers, CURLOPT_RETURNTRANSFER => true]);
    $text = curl_exec($asked);
    return [curl_getinfo($asked, CURLINFO_RESPONSE_CODE), $text];
}

function with_streams(string $url, array $headers, string $body): array
{
    $http = ['method' => 'POST', 'header' => $headers, 'content' => $body, 'ignore_errors' => true];
    $text = file_get_contents($url, false, stream_context_create(['http' => $http]));
    return [(int) explode(' ', $http_response_header[0])[1], $text];
}

foreach (array_slice($argv, 1) as $name) {
    $post = ['curl' => 'with_curl', 'streams' => 'with_streams'][$name];
    $fields = ['grant_type' => 'none', 'client_id' => getenv('CLIENT_ID'), 'client_secret' => getenv('CLIENT_SECRET')];
    $fields['scope'] = 'push_notifications enrichments';
    [$minted, $text] = $post("$api/oauth/access_token", ['Content-Type: application/x-www-form-urlencoded'], http_build_query($fields));
    $token = json_decode($text)->access_token;
    $headers = ['Content-Type: application/json', "Authorization: Bearer $token"];
    $event = ['client_token' => $client, 'platform_id' => 'Café 🎬', 'segments' => ['x'], 'notify' => false];
    [$published] = $post("$api/enrichments", $headers, json_encode($event));
    [$tooLong] = $post("$api/enrichments", $headers, str_repeat(' ', 5_000_000));
    [$unwanted] = $post("$api/push_notifications/test?client_token=$client", $headers, '{"url": "x"}');
    echo json_encode(['token' => $token, 'statuses' => [$minted, $published, $tooLong, $unwanted]]), "\n";
}
