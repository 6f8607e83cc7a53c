"""Calls of the service."""

from __future__ import annotations

import email.utils
import http.client
import json
import time
import urllib.request
from typing import Any

SECONDS_OF_A_CALL = 15


def call(url: str, body: str | None, headers: dict[str, str], member: str) -> tuple[int, Any, int]:
    """Returns status, answer (which has the member if the call succeeded), and the seconds of Retry-After.

    Status 0: no answer, or not the service's, so the outcome is unknown.
    """
    data = None if body is None else body.encode()
    request = urllib.request.Request(url, data, headers)
    until = time.monotonic() + SECONDS_OF_A_CALL
    try:
        with _opener.open(request, timeout=SECONDS_OF_A_CALL) as answer:
            text = _read(answer, until).decode(errors="replace")
            wait = _seconds_of(answer.headers.get("Retry-After") or "", answer.headers.get("Date") or "")
            if answer.status >= 300:
                return answer.status, text, wait
            answered = json.loads(text)
            if not isinstance(answered, dict) or member not in answered:
                raise ValueError(f"{answer.status} without {member}")
            return answer.status, answered, wait
    except (OSError, http.client.HTTPException, ValueError) as error:
        return 0, f"no answer ({error})", 0


def _read(answer: Any, until: float) -> bytes:
    """Reads a body. The timeout of a socket is for each piece of it alone."""
    pieces = []
    while True:
        piece = answer.read1(65_536)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        if time.monotonic() > until:
            raise TimeoutError("timed out")


def _seconds_of(retry_after: str, date: str) -> int:
    """Reads seconds, or a date, which a proxy may send (RFC 9110, section 10.2.3); a day at most.

    A date counts from the answer's own, because this clock may be wrong.
    """
    if retry_after.isdecimal():
        return min(int(retry_after), 86_400)
    until, now = _unix(retry_after), _unix(date) or int(time.time())
    return min(max(until - now, 0), 86_400)


def _unix(date: str) -> int:
    """Returns 0 for what is no date."""
    read = email.utils.parsedate_tz(date)
    return 0 if read is None else email.utils.mktime_tz((*read[:9], read[9] or 0))


class _EveryAnswer(urllib.request.HTTPErrorProcessor):
    """Hands over each answer as it is: a redirect would carry the token elsewhere, and turn the POST into a GET."""

    def http_response(self, request: urllib.request.Request, response: Any) -> Any:
        return response

    https_response = http_response


_opener = urllib.request.build_opener(_EveryAnswer)
