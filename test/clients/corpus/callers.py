"""python3 callers.py <client>: what the client is answered, as one line of JSON"""
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

import httpx
import requests
from oauthlib.oauth2 import BackendApplicationClient
from requests_oauthlib import OAuth2Session

API, ID, SECRET, CLIENT = (os.environ[name] for name in ("API", "CLIENT_ID", "CLIENT_SECRET", "CLIENT_TOKEN"))
TOKENS = f"{API}/oauth/access_token"
SCOPE = "push_notifications enrichments"
os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"


def with_urllib(url, headers, body):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def with_requests(url, headers, body):
    answer = requests.post(url, headers=headers, data=body)
    return answer.status_code, answer.content


def with_httpx(url, headers, body):
    answer = httpx.post(url, headers=headers, content=body)
    return answer.status_code, answer.content


def statuses(post):
    fields = {"grant_type": "none", "client_id": ID, "client_secret": SECRET, "scope": SCOPE}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    minted, text = post(TOKENS, form, urllib.parse.urlencode(fields).encode())
    token = json.loads(text)["access_token"]
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    event = {"client_token": CLIENT, "platform_id": "Café 🎬", "segments": ["x"], "notify": False}
    published, _ = post(f"{API}/enrichments", headers, json.dumps(event).encode())
    too_long, _ = post(f"{API}/enrichments", headers, b" " * 5_000_000)
    unwanted, _ = post(f"{API}/push_notifications/test?client_token={CLIENT}", headers, b'{"url": "x"}')
    return {"token": token, "statuses": [minted, published, too_long, unwanted]}


def requests_oauthlib(**how):
    client = BackendApplicationClient(ID, scope=SCOPE.split())
    client.grant_type = "none"
    return OAuth2Session(client=client).fetch_token(TOKENS, **how)


OAUTH = {
    "requests-oauthlib, Basic": lambda: requests_oauthlib(auth=(ID, SECRET), include_client_id=True),
    "requests-oauthlib, fields": lambda: requests_oauthlib(client_secret=SECRET, include_client_id=True),
}
HTTP = {"urllib": with_urllib, "Requests": with_requests, "httpx": with_httpx}
for name in sys.argv[1:]:
    told = {"token": OAUTH[name]()["access_token"]} if name in OAUTH else statuses(HTTP[name])
    print(json.dumps(told), flush=True)
