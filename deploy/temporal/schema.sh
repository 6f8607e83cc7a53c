#!/bin/sh
# Creates Temporal's two databases and brings their schemas up to what this release of admin-tools carries.
# Runs before every start of the server; what is there already stays. Reads SQL_HOST, SQL_PORT, SQL_USER and
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
