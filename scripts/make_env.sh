#!/bin/sh
# Make or refresh one virtual environment of the project.
#
#   make_env.sh PYTHON DIRECTORY [docs]
#
# Installs the project (editable), all its extras and the dev group; for `docs` the linter and what builds the site. A stamp keeps what it was made from, so that a
# repeat with the same Python and the same pyproject.toml installs nothing.
set -eu

python=$1
directory=$2
kind=${3:-dev}
stamp=$directory/made-from

made_from=$("$python" - pyproject.toml scripts/make_env.sh "$PWD" <<'CODE'
import hashlib, sys

digest = hashlib.sha256((sys.version + sys.executable + sys.argv[3]).encode())
for path in sys.argv[1:3]:
    with open(path, "rb") as file:
        digest.update(file.read())
print(digest.hexdigest())
CODE
)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$made_from" ]; then
    exit 0
fi

echo "== setting up $directory with $("$python" --version) =="
"$python" -m venv --clear "$directory"
pip() { "$directory/bin/python" -m pip --disable-pip-version-check --quiet "$@"; }
pip install --upgrade 'pip>=25.1' # the first to read dependency groups
if [ "$kind" = docs ]; then
    pip install --editable . --group docs
    echo "$made_from" >"$stamp"
    exit 0
fi
pip install --editable '.[all]' --group dev
# typeguard's own tests, which have to pass beside our annotations too: only its source distribution has them.
typeguard=$("$directory/bin/python" -c 'import importlib.metadata as m; print(m.version("typeguard"))')
pip download --no-deps --no-binary :all: --dest "$directory/typeguard" "typeguard==$typeguard"
echo "$made_from" >"$stamp"
