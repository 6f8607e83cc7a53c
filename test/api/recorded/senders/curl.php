<?php // php curl.php form|multipart|stream
$fields = [
  'grant_type' => 'none',
  'client_id' => getenv('CLIENT_ID'),
  'client_secret' => getenv('CLIENT_SECRET'),
  'scope' => 'push_notifications reports',
];
if ($argv[1] === 'stream') {
  $http = ['method' => 'POST', 'header' => 'Content-Type: application/x-www-form-urlencoded', 'content' => http_build_query($fields)];
  file_get_contents(getenv('TOKEN_URL'), false, stream_context_create(['http' => $http]));
} else {
  $curl = curl_init(getenv('TOKEN_URL'));
  curl_setopt($curl, CURLOPT_RETURNTRANSFER, true);
  curl_setopt($curl, CURLOPT_POSTFIELDS, $argv[1] === 'form' ? http_build_query($fields) : $fields);
  curl_exec($curl);
}
