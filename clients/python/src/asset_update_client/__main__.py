"""CLIENT_ID=... CLIENT_SECRET=... python3 -m asset_update_client URL < events.jsonl

Publishes the events of standard input, one JSON object a line, and prints the result of each. Exit status 1 if the service
refused a call or an event.
"""

from __future__ import annotations

import json
import os
import sys

from . import CallRefused, Publisher


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    url = sys.argv[1]
    publisher = Publisher(url, os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"], warn)
    refused = False
    try:
        for _, result in publisher.publish(json.loads(line) for line in sys.stdin if line.strip()):
            refused |= "code" in result
            print(json.dumps(result), flush=True)
    except CallRefused as error:
        sys.exit(f"refused: {error}")
    sys.exit(refused)


def warn(reason: str, events: int) -> None:
    print(f"{sys.argv[1]}: {reason}; {events} events are sent again", file=sys.stderr)


if __name__ == "__main__":
    main()
