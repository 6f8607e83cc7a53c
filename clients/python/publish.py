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
import urllib.error
import urllib.parse
import urllib.request
import uuid

API = sys.argv[1].rstrip("/")
EVENTS_IN_A_CALL = 100  # the service takes 500, and 1 MiB
held = {"token": None, "refused": False}


def call(path, body, headers):
    """Returns status, answer, and the seconds of Retry-After. Status 0: no answer, so the outcome is unknown."""
    request = urllib.request.Request(API + path, body.encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=15) as answer:
            return answer.status, json.load(answer), 0
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        retry_after = error.headers.get("Retry-After") or ""
        # A proxy may send a date instead of seconds.
        return error.code, text, int(retry_after) if retry_after.isdigit() else 0
    except (OSError, http.client.HTTPException, ValueError):
        return 0, "no answer", 0


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
        else:
            sys.exit(f"refused: {status} {answer}")
        events = unknown
        if events:
            time.sleep((wait or min(0.1 * 2**failures, 10)) * (1 + random.random() / 4))
            failures += 1


batch = []
for line in sys.stdin:
    if not line.strip():
        continue
    event = json.loads(line)
    # Without an id, a repeat would count as another event.
    event.setdefault("event_id", f"evt-{uuid.uuid4()}")
    batch.append(event)
    if len(batch) == EVENTS_IN_A_CALL:
        publish(batch)
        batch = []
publish(batch)
sys.exit(held["refused"])
