#!/bin/sh
# A newcomer's first hour, from the wheel, in an empty environment in a temporary folder: install, lint, baseline,
# the documentation's site, comments, fixes, the hook, commits with pre-commit, the formats for continuous integration, the
# language server, the server for agents, pytest.
#
#   first_hour.sh
#
# Needs Python, git and a package index. Ends with a table of the steps, and with status 1 if one failed.
# FIRST_HOUR_PACKAGES=FOLDER takes the packages that the wheel needs from a site-packages folder instead of the index;
# pre-commit's own environment comes from the index all the same.
set -eu

cd "$(dirname "$0")/.."
python=$(sh scripts/find_python.sh)
exec "$python" scripts/first_hour.py
