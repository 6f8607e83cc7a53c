#!/bin/sh
# Creates Temporal's two databases and updates their schemas to this release of admin-tools.
# Runs before every start of the server, and keeps existing data. Reads SQL_HOST, SQL_PORT, SQL_USER and
# SQL_PASSWORD.
set -eu

bring_up() {
  database=$1
  schema=$2
  tool() { temporal-sql-tool --plugin postgres12 --db "$database" "$@"; }
  tool create-database
  tool setup-schema -v 0.0
  tool update-schema --schema-name "postgresql/v12/$schema"
}

bring_up temporal temporal
bring_up temporal_visibility visibility
