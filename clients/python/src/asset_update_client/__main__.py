"""CLIENT_ID=... CLIENT_SECRET=... python3 -m asset_update_client URL < events.jsonl

Publishes the events of standard input, one JSON object a line, and prints the result of each. Exit status 1 if the service
refused a call or an event, or a line is not an object.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

from . import CallRefused, Event, Publisher


def main() -> None:
    try:
        [url] = sys.argv[1:]
        client_id, client_secret = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
    except (ValueError, KeyError):
        sys.exit(__doc__)
    refused = False

    def read_events() -> Iterator[Event]:
        nonlocal refused
        for number, line in enumerate(sys.stdin.buffer, 1):
            if not line.strip():
                continue
            try:
                # Python alone reads NaN and Infinity: the service would refuse the whole call.
                yield Event(**json.loads(line, parse_constant=int))
            except (ValueError, TypeError, RecursionError):
                refused = True
                print(f"line {number} is not a JSON object", file=sys.stderr)

    try:
        for _, result in Publisher(url, client_id, client_secret, warn).publish(read_events()):
            refused |= "code" in result
            print(json.dumps(result), flush=True)
    except (CallRefused, ValueError) as error:
        sys.exit(f"refused: {error}")
    except OSError as error:
        # Python would write what is left in its buffer once more, and fail with a trace.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(f"broke off ({error}): events without a result may not be published")
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(refused)


def warn(reason: str, events: int) -> None:
    print(f"{sys.argv[1]}: {reason}; {events} events are sent again", file=sys.stderr)


if __name__ == "__main__":
    main()
