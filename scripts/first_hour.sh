#!/bin/sh
# A newcomer's first hour, from the wheel, in an empty environment in a temporary folder: install, lint, baseline,
# comments, fixes, the hook, the formats for continuous integration, the language server, the server for agents, pytest.
#
#   first_hour.sh
#
# Needs Python and a package index. Ends with a table of the steps, and with status 1 if one failed.
# FIRST_HOUR_PACKAGES=FOLDER takes the packages that the wheel needs from a site-packages folder instead of the index.
set -eu

cd "$(dirname "$0")/.."
python=$(sh scripts/find_python.sh)
exec "$python" scripts/first_hour.py
