import base64
import hashlib
import hmac
import time


def is_genuine(headers, body, secret):
    """headers: by their names in lower case; body: bytes, before anything parses them; secret: whsec_..."""
    id = headers.get("webhook-id", "")
    timestamp = headers.get("webhook-timestamp", "")
    # Older than 5 minutes: somebody may have kept it, to send it again.
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    wanted = b"v1," + base64.b64encode(digest)
    given = headers.get("webhook-signature", "").split(" ")
    return any(hmac.compare_digest(wanted, one.encode()) for one in given)
