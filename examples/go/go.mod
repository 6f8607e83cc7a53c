module example.com/asset-update-receiver

go 1.22

require github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
