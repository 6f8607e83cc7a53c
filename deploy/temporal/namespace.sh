#!/bin/sh
# Creates the namespace, and the search attributes by which operators find an event. It changes nothing that exists, so
# it can run before every start. Reads TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE and NAMESPACE_RETENTION (how long closed
# workflows are kept; applied when the namespace is created).
set -eu

: "${TEMPORAL_ADDRESS:?}" "${TEMPORAL_NAMESPACE:?}" "${NAMESPACE_RETENTION:?}"
export TEMPORAL_ADDRESS TEMPORAL_NAMESPACE

# All parts of the server know a new namespace some seconds later.
until_done() {
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ "$tries" -lt 30 ] || { echo "gave up: $*" >&2; exit 1; }
    sleep 2
  done
}

namespace() {
  temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
    temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$NAMESPACE_RETENTION"
}

search_attribute() {
  temporal operator search-attribute list | grep -Eq "^ *$1 +$2 *\$" ||
    temporal operator search-attribute create --name "$1" --type "$2"
}

until_done temporal operator cluster health
until_done namespace
until_done search_attribute ClientToken KeywordList
until_done search_attribute PlatformId KeywordList
until_done search_attribute EventId KeywordList
until_done search_attribute NotificationState Keyword
until_done search_attribute HttpStatus Int
