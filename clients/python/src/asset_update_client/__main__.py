"""CLIENT_ID=... CLIENT_SECRET=... python3 -m asset_update_client URL < events.jsonl

Publishes the events of standard input, one JSON object a line, and prints the result of each. Exit status 1 if the service
refused a call or an event, a line is not an object, or there is none; 2 for wrong usage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

from . import CallRefused, Event, Publisher


def main() -> None:
    asked = sys.argv[1:]
    if "--help" in asked or "-h" in asked:
        sys.exit(print(__doc__))
    client_id, client_secret = os.environ.get("CLIENT_ID"), os.environ.get("CLIENT_SECRET")
    if len(asked) != 1 or not client_id or not client_secret:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    [url] = asked
    refused = False
    lines = 0

    def read_events() -> Iterator[Event]:
        nonlocal refused, lines
        for number, line in enumerate(sys.stdin.buffer, 1):
            if not line.strip():
                continue
            lines += 1
            try:
                # Python alone reads NaN and Infinity, and takes 1e999 for the latter: the service would refuse the call.
                event = Event(**json.loads(line, parse_constant=int))
                json.dumps(event, allow_nan=False)
                yield event
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
    if lines == 0:
        sys.exit("there are no events on standard input")
    sys.exit(refused)


def warn(reason: str, events: int) -> None:
    print(f"{sys.argv[1]}: {reason}; {events} events are sent again", file=sys.stderr)


if __name__ == "__main__":
    main()
