"""Publishes enrichment events to the asset-update service, and compares what a receiver has stored with its updates."""

from __future__ import annotations

import json
import logging
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any, TypedDict

from ._http import call
from ._waiting import Entry, Waiting, seconds_after

__all__ = ["CallRefused", "Event", "Publisher", "Reconciled", "Result", "Updates"]

EVENTS_IN_A_CALL = 100  # the service takes 500
EVENTS_WAITING = 10_000  # while so many wait for an answer, no other is read
_UNKNOWN = "temporarily_unavailable"  # the code of an event of which it is not known whether it was accepted


class _Named(TypedDict, total=False):
    event_id: str
    priority: str
    notify: bool


class Event(_Named):
    """An event as POST /enrichments takes it; `publish` makes an `event_id` where there is none."""

    client_token: str
    platform_id: str
    segments: list[str]


class Result(TypedDict, total=False):
    """The service's answer to one event: with `notification` it was accepted, with `code` refused."""

    event_id: str | None
    notification: str
    notification_id: str
    held: str
    reason: str
    code: str
    msg: str


class Reconciled(TypedDict):
    """What a table of stored notifications misses."""

    missing: list[dict[str, Any]]  # as GET /updates lists them; without notification_id no notification was made
    compared: int  # assets
    nothing_compared: bool  # `until` is before `since`: updates since then may still be owed
    until: str  # updates until then were compared
    complete_since: str | None  # from when the service's list is complete


class CallRefused(Exception):
    """The service refused a call: it accepted none of the events, unless in an earlier try that had no answer."""


def _log_retry(reason: str, events: int) -> None:
    again = f"{events} events are sent again" if events else "updates are asked for again"
    logging.getLogger(__name__).warning("%s; %s", reason, again)


class _Service:
    _scope: str

    def __init__(
        self,
        url: str,
        client_id: str,
        client_secret: str,
        on_retry: Callable[[str, int], None] = _log_retry,
    ) -> None:
        """`on_retry` is told why a call is sent again, and how many events it has (0: it reads), at the first failure in a row.

        Raises ValueError if `url` is not an http or https address without blanks, user, query and fragment, or a credential is empty.
        """
        parts = urllib.parse.urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and parts.path.isascii()
        if not is_address or min(url) <= " " or "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("url must be an http or https address, without blanks, user, query and fragment")
        if not client_id or not client_secret:
            raise ValueError("client_id and client_secret must not be empty")
        self._url = url.rstrip("/")
        self._credentials = {"client_id": client_id, "client_secret": client_secret}
        self._on_retry = on_retry
        self._token: str | None = None

    def _authorized(self, path: str, body: str | None, member: str) -> tuple[int, Any, int]:
        """Calls with the token that all threads share; if the service refuses the token, once more with a new one."""
        for is_renewed in (False, True):
            token = self._token
            if token is None:
                fields = {"grant_type": "none", "scope": self._scope, **self._credentials}
                form = {"content-type": "application/x-www-form-urlencoded"}
                answered = call(self._url + "/oauth/access_token", urllib.parse.urlencode(fields), form, "access_token")
                if answered[0] != 200:
                    _check_passing(*answered[:2])
                    break
                token = self._token = answered[1]["access_token"]
            headers = {"authorization": f"Bearer {token}"}
            if body is not None:
                headers["content-type"] = "application/json"
            answered = call(self._url + path, body, headers, member)
            if answered[0] != 401 or is_renewed:
                break
            if self._token == token:
                self._token = None
        return answered

    def _tell(self, failures: int, status: int, answer: Any, wait: int, events: int) -> None:
        if failures == 1:
            asked = f", to wait {wait} s" if wait else ""
            try:
                self._on_retry(f"{status or answer}{asked}", events)
            except Exception:
                # What waits for an answer must not be lost with it.
                logging.getLogger(__name__).exception("on_retry failed")


class Publisher(_Service):
    _scope = "enrichments"

    def publish(self, events: Iterable[Event]) -> Iterator[tuple[Event, Result]]:
        """Yields each event with its result, once the service has accepted or refused it. Whoever reads no results sends nothing.

        Raises CallRefused.
        """
        waiting = Waiting(EVENTS_IN_A_CALL)
        for given in events:
            # Without an id, a repeat would count as another event.
            event_id = given.get("event_id")
            event: Event = {**given, "event_id": f"evt-{uuid.uuid4()}" if event_id is None else event_id}
            waiting.add(Entry(event, len(json.dumps(event)) + len(", "), EVENTS_IN_A_CALL))
            if waiting.is_due():
                yield from self._publish(waiting)
            while len(waiting) >= EVENTS_WAITING:
                yield from self._publish(waiting)
        while len(waiting) > 0:
            yield from self._publish(waiting)

    def _publish(self, waiting: Waiting) -> Iterator[tuple[Event, Result]]:
        """Makes the next call. What has no answer is sent again with the same ids, so that none counts twice."""
        call = waiting.next_call()
        if not call:
            return
        events = [entry.event for entry in call]
        status, answer, wait = self._authorized("/enrichments", json.dumps({"events": events}), "results")
        unknown = call
        if status == 202:
            # 202 is the answer to the call, not to each event: check every item.
            unknown = []
            results = answer["results"] + [{}] * len(call)
            for entry, result in zip(call, results):
                if "notification" in result or result.get("code", _UNKNOWN) != _UNKNOWN:
                    yield entry.event, result
                else:
                    unknown.append(entry)
        elif len(call) > 1 and (status in (400, 408, 413) or (status == 0 and "timed out" in answer)):
            # In parts what takes its line too long arrives, what is too large fits, and what spoils the call is refused alone.
            for entry in call:
                entry.most = (len(call) + 1) // 2
        elif status == 413 or (status == 400 and _code_of(answer)):
            unknown = []
            yield events[0], {"event_id": events[0]["event_id"], "code": _code_of(answer) or "unexpected_answer"}
        else:
            _check_passing(status, answer)
        failures = waiting.settle(call, unknown, not unknown or status == 202, wait)
        self._tell(failures, status, answer, wait, len(unknown))


class Updates(_Service):
    _scope = "push_notifications"

    def reconcile(
        self,
        client_token: str,
        stored: Iterable[tuple[str, str]],
        since: str | None = None,
        until: str | None = None,
    ) -> Reconciled:
        """Compares what a receiver has stored, (platform_id, webhook-id), with all updates of a client. Times are RFC 3339.

        An update counts once the service has delivered all that was published until then (`delivered_until`), and at `until`:
        5 minutes ago if absent, so that your table was read later.

        Raises CallRefused.
        """
        last = _time_of(until) if until else datetime.now(timezone.utc) - timedelta(minutes=5)
        held = set(stored)
        first = _time_of(since) if since else datetime.min.replace(tzinfo=timezone.utc)
        query = {"client_token": client_token, "limit": "1000", **({"since": since} if since else {})}
        newest: dict[str, dict[str, Any]] = {}
        page = self._page(query)
        if page.get("delivered_until"):
            last = min(last, _time_of(page["delivered_until"]))
        complete_since = page.get("complete_since")
        while True:
            for update in page["updates"]:
                newest.pop(update["platform_id"], None)
                newest[update["platform_id"]] = update
            if not page["has_more"]:
                break
            query.pop("since", None)
            page = self._page({**query, "cursor": page["next_cursor"]})
        compared = [one for one in newest.values() if first <= _time_of(one["updated_at"]) <= last]
        missing = [one for one in compared if (one["platform_id"], one.get("notification_id")) not in held]
        return {
            "missing": missing,
            "compared": len(compared),
            "nothing_compared": last < first,
            "until": last.isoformat(timespec="milliseconds"),
            "complete_since": complete_since,
        }

    def _page(self, query: dict[str, str]) -> dict[str, Any]:
        failures = 0
        while True:
            path = "/updates?" + urllib.parse.urlencode(query)
            status, answer, wait = self._authorized(path, None, "next_cursor")
            if status == 200:
                return answer
            _check_passing(status, answer)
            failures += 1
            self._tell(failures, status, answer, wait, 0)
            time.sleep(seconds_after(failures, wait))


def _check_passing(status: int, answer: Any) -> None:
    """Raises CallRefused where the same call cannot succeed later.

    A refusal of the service has a code: another one, such as the page of a proxy, says nothing about the call.
    """
    if status not in (0, 408, 429) and status < 500 and (status < 300 or status == 413 or _code_of(answer)):
        raise CallRefused(f"{status} {answer}")


def _code_of(answer: Any) -> str | None:
    try:
        problem = json.loads(answer)
        code = problem.get("code", problem.get("error"))
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return code if isinstance(code, str) else None


def _time_of(text: str) -> datetime:
    """Raises ValueError. Python below 3.11 knows no `Z`."""
    read = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "zZ" else text)
    return read if read.tzinfo else read.replace(tzinfo=timezone.utc)
