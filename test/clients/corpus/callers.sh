# sh callers.sh curl: what curl is answered, as one line of JSON
asked() { curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $token" -H 'Content-Type: application/json' "$@"; }
minted=$(curl -s -w ' %{http_code}' -u "$CLIENT_ID:$CLIENT_SECRET" -d grant_type=none -d 'scope=push_notifications enrichments' "$API/oauth/access_token")
token=$(printf %s "$minted" | sed 's/.*"access_token":"\([^"]*\)".*/\1/')
published=$(asked "$API/enrichments" -d "{\"client_token\": \"$CLIENT_TOKEN\", \"platform_id\": \"Café 🎬\", \"segments\": [\"x\"], \"notify\": false}")
# curl sends Expect: 100-continue before a body of this size.
too_long=$(head -c 5000000 /dev/zero | tr '\0' ' ' | asked "$API/enrichments" --data-binary @-)
unwanted=$(asked "$API/push_notifications/test?client_token=$CLIENT_TOKEN" -d '{"url": "x"}')
echo "{\"token\": \"$token\", \"statuses\": [${minted##* }, $published, $too_long, $unwanted]}"
