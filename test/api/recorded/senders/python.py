"""python3 python.py requests-form|requests-multipart|requests-typed-parts|urllib-form|email-multipart"""
import os
import sys
import urllib.parse
import urllib.request
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart

URL = os.environ["TOKEN_URL"]
FIELDS = {
    "grant_type": "none",
    "client_id": os.environ["CLIENT_ID"],
    "client_secret": os.environ["CLIENT_SECRET"],
    "scope": "push_notifications reports",
}


def email_multipart() -> None:
    """The standard library has no multipart forms: its mail package is what recipes use."""
    form = MIMEMultipart("form-data")
    for name, value in FIELDS.items():
        part = MIMENonMultipart("text", "plain", charset="us-ascii")
        part.add_header("Content-Disposition", "form-data", name=name)
        part.set_payload(value)
        form.attach(part)
    body = form.as_bytes(policy=form.policy.clone(linesep="\r\n"))
    head, _, body = body.partition(b"\r\n\r\n")
    headers = {"Content-Type": form["Content-Type"], "MIME-Version": "1.0"}
    urllib.request.urlopen(urllib.request.Request(URL, body, headers))


match sys.argv[1]:
    case "urllib-form":
        urllib.request.urlopen(URL, urllib.parse.urlencode(FIELDS).encode())
    case "email-multipart":
        email_multipart()
    case kind:
        import requests

        if kind == "requests-form":
            requests.post(URL, data=FIELDS)
        elif kind == "requests-multipart":
            requests.post(URL, files={name: (None, value) for name, value in FIELDS.items()})
        elif kind == "requests-typed-parts":
            parts = {name: (None, value, "text/plain") for name, value in FIELDS.items()}
            requests.post(URL, files=parts)
