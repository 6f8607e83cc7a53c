"""Calls the service with the client that was generated into the folder of the first argument, and prints each answer as it was read."""

import json
import os
import sys
from pathlib import Path

made = Path(sys.argv[1])
sys.path.insert(0, str(made.parent))
exec(f"from {made.name} import AuthenticatedClient, Client")
for path in ["tokens.create_access_token", "publishing.publish_enrichments", "notifications.get_notification"]:
    exec(f"from {made.name}.api.{path.split('.')[0]} import {path.split('.')[1]}")
for path in ["list_notifications", "list_updates", "explain_event"]:
    exec(f"from {made.name}.api.notifications import {path}")
exec(f"from {made.name}.api.endpoint import get_push_notifications, list_clients")
exec(f"from {made.name}.models import CreateAccessTokenBody, EnrichmentEvent, EventBatch")

api, client_token = os.environ["API"], os.environ["CLIENT_TOKEN"]


def told(name, answer):
    print(json.dumps([name, answer.to_dict()]))
    return answer


def token(secret, name):
    body = CreateAccessTokenBody(
        grant_type="none",
        client_id=os.environ["CLIENT_ID"],
        client_secret=secret,
        scope="push_notifications enrichments",
    )
    return told(name, create_access_token.sync(client=Client(base_url=api), body=body))


token("wrong", "refused")
access_token = token(os.environ["CLIENT_SECRET"], "token").access_token
client = AuthenticatedClient(base_url=api, token=access_token)


def event(video, to=client_token):
    return EnrichmentEvent(client_token=to, platform_id=video, segments=["iab:17"], event_id=f"an-{video}")


events = [event("vid-1"), event("vid-1"), event("vid-2", "NOBODY")]
batch = EventBatch(events=[*events, EnrichmentEvent(client_token=client_token, platform_id="x", segments=[])])
told("batch", publish_enrichments.sync(client=client, body=batch))
told("again", publish_enrichments.sync(client=client, body=event("vid-1")))
listed = told("notifications", list_notifications.sync(client=client, client_token=client_token))
notification_id = listed.notifications[0].notification_id
told("notification", get_notification.sync(notification_id, client=client, client_token=client_token))
told("updates", list_updates.sync(client=client, client_token=client_token))
told("event", explain_event.sync("an-vid-1", client=client, client_token=client_token))
told("endpoint", get_push_notifications.sync(client=client, client_token=client_token))
told("clients", list_clients.sync(client=client))
told("unknown", get_push_notifications.sync(client=client, client_token="NOBODY"))
