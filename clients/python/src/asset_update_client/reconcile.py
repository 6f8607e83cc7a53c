"""CLIENT_ID=... CLIENT_SECRET=... python3 -m asset_update_client.reconcile URL CLIENT_TOKEN [SINCE] < stored.tsv

Compares what a receiver has stored, on standard input one line of `platform_id`, a tab and `webhook-id` for each notification, with
the client's updates since SINCE (RFC 3339), and prints each update that is missing as a line of JSON. Exit status 1 if one is
missing, or nothing since SINCE can be compared yet, or the service refuses the call, or a line has no tab; 2 for wrong usage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

from . import CallRefused, Updates


def main() -> None:
    try:
        url, client_token, *since = sys.argv[1:]
        client_id, client_secret = os.environ["CLIENT_ID"], os.environ["CLIENT_SECRET"]
        [] = since[1:]
    except (ValueError, KeyError):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    try:
        done = Updates(url, client_id, client_secret, warn).reconcile(client_token, read_stored(), *since)
    except (CallRefused, ValueError) as error:
        sys.exit(f"refused: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    for update in done["missing"]:
        print(json.dumps(update))
    reach = f", complete since {done['complete_since']}" if done["complete_since"] else ""
    print(f"{len(done['missing'])} of {done['compared']} missing, until {done['until']}{reach}", file=sys.stderr)
    if done["nothing_compared"]:
        print(f"nothing was compared: updates since {since[0]} may still be owed", file=sys.stderr)
    sys.exit(bool(done["missing"]) or done["nothing_compared"])


def warn(reason: str, _: int) -> None:
    print(f"{sys.argv[1]}: {reason}; updates are asked for again", file=sys.stderr)


def read_stored() -> Iterator[tuple[str, str]]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        platform_id, tab, webhook_id = line.decode().rstrip("\r\n").rpartition("\t")
        if not tab:
            raise ValueError(f"line {number} has no tab between platform_id and webhook-id")
        yield platform_id, webhook_id


if __name__ == "__main__":
    main()
