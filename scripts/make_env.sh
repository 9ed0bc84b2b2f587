#!/bin/sh
# Make or refresh one virtual environment of the project.
#
#   make_env.sh PYTHON DIRECTORY GROUP...
#
# Installs the project (editable) and these groups of dependencies; with the group dev all its extras too. A stamp keeps
# what it was made from, so that a repeat with the same Python and the same pyproject.toml installs nothing.
set -eu

python=$1
directory=$2
shift 2
stamp=$directory/made-from

made_from=$("$python" - pyproject.toml scripts/make_env.sh "$PWD $*" <<'CODE'
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
project=.
options=
for group in "$@"; do
    options="$options --group $group"
    if [ "$group" = dev ]; then
        project='.[all]'
    fi
done
pip install --editable "$project" $options
if [ "$project" = '.[all]' ]; then
    # typeguard's own tests, which have to pass beside our annotations too: only its source distribution has them.
    typeguard=$("$directory/bin/python" -c 'import importlib.metadata as m; print(m.version("typeguard"))')
    pip download --no-deps --no-binary :all: --dest "$directory/typeguard" "typeguard==$typeguard"
fi
echo "$made_from" >"$stamp"
