# pip install -r requirements.txt; SIGNING_SECRETS="whsec_..." uvicorn receiver:app --port 4000
import os
from base64 import b64decode

from fastapi import BackgroundTasks, FastAPI, HTTPException, Request
from standardwebhooks import Webhook, WebhookVerificationError


def is_key(secret: str) -> bool:  # with an empty key anybody could sign
    try:
        return len(b64decode(secret.removeprefix("whsec_"))) >= 24
    except ValueError:  # cut off
        return False


# Several, separated by spaces, while you change from one secret to the next.
webhooks = [Webhook(secret) for secret in os.environ.get("SIGNING_SECRETS", "").split() if is_key(secret)]
if not webhooks:
    raise SystemExit("SIGNING_SECRETS has no signing secret (whsec_...)")
seen: set[str] = set()  # in production: a table with webhook-id as its primary key, written before the answer
app = FastAPI()


@app.post("/notifications", status_code=204)
async def receive(request: Request, tasks: BackgroundTasks) -> None:
    notification = verified(await read(request), dict(request.headers))
    if notification is None:
        raise HTTPException(401)
    webhook_id = request.headers["webhook-id"]
    if webhook_id not in seen and notification["event"] == "asset-update":
        tasks.add_task(work, notification["platform_id"])  # runs after the answer
    seen.add(webhook_id)


async def read(request: Request) -> bytes:
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > 16_384:  # a notification has some hundred bytes
            raise HTTPException(413)
    return body


def verified(body: bytes, headers: dict[str, str]) -> dict[str, str] | None:
    """The notification; None when no secret made one of its signatures, or its time is over 5 minutes away."""
    for webhook in webhooks:
        try:
            return webhook.verify(body, headers)
        except (WebhookVerificationError, ValueError):  # ValueError: a header that cannot be read
            pass
    return None


def work(platform_id: str) -> None:
    print(f"updated: {platform_id}", flush=True)  # ask the platform for the segments of this video
