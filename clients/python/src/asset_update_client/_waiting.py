"""Events that wait for a call."""

from __future__ import annotations

import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

BYTES_IN_A_CALL = 1_000_000  # the service takes 1 MiB


@dataclass
class Entry:
    event: Any
    size: int  # characters
    most: int  # events at most in the next call with this one

    @property
    def client(self) -> Any:
        return self.event.get("client_token")


@dataclass
class _HeldBack:
    """A client without an answer about some of its events."""

    failures: int = 0  # in a row
    entries: deque[Entry] = field(default_factory=deque)
    due: float = 0  # by the monotonic clock


class Waiting:
    """Events that wait for a call, those of each client in their order.

    A client whose events the service cannot answer for is held back, so that it delays no other client.
    """

    def __init__(self, events_in_a_call: int) -> None:
        self._events_in_a_call = events_in_a_call
        self._count = 0
        self._ready: deque[Entry] = deque()
        self._ready_size = 0
        self._held_back: dict[Any, _HeldBack] = {}
        self._failures = 0  # calls in a row that had no answer
        # By the monotonic clock: when the first client held back is due, and when the next call may be made.
        self._due, self._resumes = float("inf"), 0.0

    def __len__(self) -> int:
        return self._count

    def add(self, entry: Entry) -> None:
        self._count += 1
        held = self._held_back.get(entry.client)
        if held:
            held.entries.append(entry)
        else:
            self._ready.append(entry)
            self._ready_size += entry.size

    def is_due(self) -> bool:
        is_full = len(self._ready) >= self._events_in_a_call or self._ready_size > BYTES_IN_A_CALL
        return is_full or max(self._due, self._resumes) <= time.monotonic()

    def next_call(self) -> list[Entry]:
        """Sleeps until there is a next call, and takes its events. Half of it is for clients that are not held back."""
        now = time.monotonic()
        until = self._resumes if self._ready else max(self._due, self._resumes)
        if until > now:
            time.sleep(until - now)
        call: list[Entry] = []
        size, most = 0, self._events_in_a_call

        def takes(entry: Entry) -> bool:
            nonlocal size, most
            size += entry.size
            most = min(most, entry.most)
            is_taken = len(call) < most and (not call or size <= BYTES_IN_A_CALL)
            if is_taken:
                call.append(entry)
            return is_taken

        now = time.monotonic()
        due = [held for held in self._held_back.values() if held.due <= now]
        waiting = sum(len(held.entries) for held in due)
        share = max(self._events_in_a_call - waiting, self._events_in_a_call // 2)
        while self._ready:
            held = self._held_back.get(self._ready[0].client)
            if held is None and (len(call) >= share or not takes(self._ready[0])):
                break
            entry = self._ready.popleft()
            self._ready_size -= entry.size
            if held:
                held.entries.append(entry)
        for held in due:
            while held.entries and takes(held.entries[0]):
                held.entries.popleft()
        return call

    def settle(self, call: list[Entry], unknown: list[Entry], is_answered: bool, wait: int) -> int:
        """Holds each client back that has unknown events, and lets the others of the call go on.

        After a call without an answer, as in an outage, no other is made for a while. Returns how many failures in a row are told.
        """
        now = time.monotonic()
        self._count -= len(call) - len(unknown)
        self._failures = 0 if is_answered else self._failures + 1
        self._resumes = now if is_answered else now + seconds_after(self._failures, wait)
        fewest = 0
        sent = Counter(entry.client for entry in call)
        for client in sent:
            again = [entry for entry in unknown if entry.client == client]
            # Comes back at the end of the dictionary: each has its turn.
            held = self._held_back.pop(client, None) or _HeldBack()
            held.entries.extendleft(reversed(again))
            if again:
                held.failures = held.failures + 1 if len(again) == sent[client] else 1
                held.due = now + seconds_after(held.failures, wait)
                self._held_back[client] = held
                fewest = min(fewest or held.failures, held.failures)
            else:
                self._ready.extendleft(reversed(held.entries))
                self._ready_size += sum(entry.size for entry in held.entries)
        self._due = min((held.due for held in self._held_back.values()), default=float("inf"))
        return max(self._failures, fewest)


def seconds_after(failures: int, wait: int) -> float:
    """Returns for how long to wait before a call is made again. `wait` is what the service asks for."""
    return max(wait, min(2 ** (failures - 1), 100) / 10) * (1 + random.random() / 4)
