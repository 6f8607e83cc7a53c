// callers <client>: what the client is answered, as one line of JSON
package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

var api, id, secret, client = os.Getenv("API"), os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_SECRET"), os.Getenv("CLIENT_TOKEN")

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func post(address, contentType, token, body string, expect bool) (int, []byte) {
	request := must(http.NewRequest("POST", address, strings.NewReader(body)))
	request.Header.Set("Content-Type", contentType)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	if expect {
		request.Header.Set("Expect", "100-continue")
	}
	answer := must(http.DefaultClient.Do(request))
	defer answer.Body.Close()
	return answer.StatusCode, must(io.ReadAll(answer.Body))
}

func statuses(expect bool) map[string]any {
	http.DefaultTransport.(*http.Transport).ExpectContinueTimeout = 5e9
	fields := url.Values{"grant_type": {"none"}, "client_id": {id}, "client_secret": {secret}, "scope": {"push_notifications enrichments"}}
	minted, text := post(api+"/oauth/access_token", "application/x-www-form-urlencoded", "", fields.Encode(), expect)
	var told struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(text, &told); err != nil {
		panic(err)
	}
	event := `{"client_token": "` + client + `", "platform_id": "Café 🎬", "segments": ["x"], "notify": false}`
	published, _ := post(api+"/enrichments", "application/json", told.Token, event, expect)
	tooLong, _ := post(api+"/enrichments", "application/json", told.Token, strings.Repeat(" ", 5_000_000), expect)
	unwanted, _ := post(api+"/push_notifications/test?client_token="+client, "application/json", told.Token, `{"url": "x"}`, expect)
	return map[string]any{"token": told.Token, "statuses": []int{minted, published, tooLong, unwanted}}
}

func mint(style oauth2.AuthStyle) map[string]any {
	config := clientcredentials.Config{
		ClientID: id, ClientSecret: secret, TokenURL: api + "/oauth/access_token", AuthStyle: style,
		Scopes: []string{"push_notifications", "enrichments"}, EndpointParams: url.Values{"grant_type": {"none"}},
	}
	return map[string]any{"token": must(config.Token(context.Background())).AccessToken}
}

func main() {
	callers := map[string]func() map[string]any{
		"net/http":         func() map[string]any { return statuses(false) },
		"net/http, Expect": func() map[string]any { return statuses(true) },
		"x/oauth2":         func() map[string]any { return mint(oauth2.AuthStyleAutoDetect) },
		"x/oauth2, Basic":  func() map[string]any { return mint(oauth2.AuthStyleInHeader) },
		"x/oauth2, fields": func() map[string]any { return mint(oauth2.AuthStyleInParams) },
	}
	for _, name := range os.Args[1:] {
		must(os.Stdout.Write(append(must(json.Marshal(callers[name]())), '\n')))
	}
}
