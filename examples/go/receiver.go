// SIGNING_SECRETS="whsec_..." PORT=4000 go run .
package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var seen sync.Map // in production: a table with webhook-id as its primary key, written before the answer

// Several secrets, separated by spaces, while you change from one to the next.
var webhooks []*standardwebhooks.Webhook

func main() {
	for _, secret := range strings.Fields(os.Getenv("SIGNING_SECRETS")) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) < 24 {
			continue // with an empty key anybody could sign
		}
		if webhook, err := standardwebhooks.NewWebhook(secret); err == nil {
			webhooks = append(webhooks, webhook)
		}
	}
	if len(webhooks) == 0 {
		log.Fatal("SIGNING_SECRETS has no signing secret (whsec_...)")
	}
	http.HandleFunc("POST /notifications", receive)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}

func receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<10))
	if err != nil || !verified(body, r.Header) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if _, known := seen.LoadOrStore(r.Header.Get("webhook-id"), true); !known {
		go work(body)
	}
	w.WriteHeader(http.StatusNoContent)
}

// verified reports whether a secret made one of the signatures, at most 5 minutes ago.
func verified(body []byte, header http.Header) bool {
	for _, webhook := range webhooks {
		if webhook.Verify(body, header) == nil {
			return true
		}
	}
	return false
}

func work(body []byte) {
	var notification struct{ Event, Platform_id string }
	if json.Unmarshal(body, &notification) == nil && notification.Event == "asset-update" {
		log.Println("updated:", notification.Platform_id) // ask the platform for the segments of this video
	}
}
