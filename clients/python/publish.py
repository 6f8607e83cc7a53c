# CLIENT_ID=... CLIENT_SECRET=... python3 publish.py https://notifications.example.com < events.jsonl
"""Publishes the events of standard input, one JSON object a line, and prints the result of each.

Needs Python 3.9 or newer and no package. Exit status 1 if the service refused a call or an event.
"""

import http.client
import json
import os
import random
import sys
import time
import urllib.parse
import urllib.request
import uuid

API = sys.argv[1].rstrip("/")
EVENTS_IN_A_CALL = 100  # the service takes 500
BYTES_IN_A_CALL = 1_000_000  # the service takes 1 MiB
held = {"token": None, "refused": False}


class EveryAnswer(urllib.request.HTTPErrorProcessor):
    """Hands over each answer as it is: a redirect would carry the token elsewhere, and turn the POST into a GET."""

    def http_response(self, request, response):
        return response

    https_response = http_response


opener = urllib.request.build_opener(EveryAnswer)


def call(path, body, headers):
    """Returns status, answer, and the seconds of Retry-After. Status 0: no answer, so the outcome is unknown."""
    request = urllib.request.Request(API + path, body.encode(), headers, method="POST")
    try:
        with opener.open(request, timeout=15) as answer:
            text = answer.read().decode(errors="replace")
            # A proxy may send a date instead of seconds.
            retry_after = answer.headers.get("Retry-After") or ""
            wait = int(retry_after) if retry_after.isdigit() else 0
            return answer.status, json.loads(text) if answer.status < 300 else text, wait
    except (OSError, http.client.HTTPException, ValueError) as error:
        return 0, f"no answer ({error})", 0


def post(events):
    if held["token"] is None:
        fields = {
            "grant_type": "none",
            "scope": "enrichments",
            "client_id": os.environ["CLIENT_ID"],
            "client_secret": os.environ["CLIENT_SECRET"],
        }
        form = {"content-type": "application/x-www-form-urlencoded"}
        status, answer, wait = call("/oauth/access_token", urllib.parse.urlencode(fields), form)
        if status != 200:
            return status, answer, wait
        held["token"] = answer["access_token"]
    headers = {"content-type": "application/json", "authorization": "Bearer " + held["token"]}
    return call("/enrichments", json.dumps({"events": events}), headers)


def publish(events):
    """Sends the events until each is accepted or refused: always with the same ids, so that none counts twice."""
    failures = renewed = 0
    while events:
        status, answer, wait = post(events)
        unknown = []
        if status == 202:
            # 202 is the answer to the call, not to each event: check every item.
            for event, result in zip(events, answer["results"]):
                if result.get("code") == "temporarily_unavailable":
                    unknown.append(event)
                else:
                    held["refused"] |= "code" in result
                    print(json.dumps(result))
        elif status == 401 and held["token"] is not None and not renewed:
            held["token"], renewed, unknown = None, 1, events
        elif status in (0, 408, 429) or status >= 500:
            unknown = events
            if failures == 0:
                print(f"{API}: {status or answer}; {len(events)} events are sent again", file=sys.stderr)
        else:
            sys.exit(f"refused: {status} {answer}")
        events = unknown
        if events:
            time.sleep(max(wait, min(2**failures, 100) / 10) * (1 + random.random() / 4))
            failures += 1


batch, batch_bytes = [], 0
for line in sys.stdin:
    if not line.strip():
        continue
    event = json.loads(line)
    # Without an id, a repeat would count as another event.
    event.setdefault("event_id", f"evt-{uuid.uuid4()}")
    event_bytes = len(json.dumps(event)) + len(", ")
    if len(batch) == EVENTS_IN_A_CALL or batch_bytes + event_bytes > BYTES_IN_A_CALL:
        publish(batch)
        batch, batch_bytes = [], 0
    batch.append(event)
    batch_bytes += event_bytes
publish(batch)
sys.exit(held["refused"])
