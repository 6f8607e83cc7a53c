# sh curl.sh form|multipart|charset|expect
case $1 in
  form) exec curl -s -d grant_type=none -d "client_id=$CLIENT_ID" -d "client_secret=$CLIENT_SECRET" \
    --data-urlencode 'scope=push_notifications reports' "$TOKEN_URL" ;;
  multipart) exec curl -s -F grant_type=none -F "client_id=$CLIENT_ID" -F "client_secret=$CLIENT_SECRET" \
    -F 'scope=push_notifications reports' "$TOKEN_URL" ;;
  typed-parts) exec curl -s -F 'grant_type=none;type=text/plain' -F "client_id=$CLIENT_ID;type=text/plain;charset=us-ascii" \
    -F "client_secret=$CLIENT_SECRET;encoder=8bit" -F 'scope=push_notifications reports;encoder=base64' "$TOKEN_URL" ;;
  chunked-expect) exec curl -s -H 'Transfer-Encoding: chunked' -H 'Expect: 100-continue' -F grant_type=none \
    -F "client_id=$CLIENT_ID" -F "client_secret=$CLIENT_SECRET" -F 'scope=push_notifications reports' "$TOKEN_URL" ;;
esac
