#!/bin/sh
# Tests on the oldest releases of the direct dependencies that pyproject.toml admits, in environments under .venv/:
# the linter alone, then everything. Raise a bound in pyproject.toml where one of them is too old.
set -eu

python=$(sh scripts/find_python.sh)
tools='pytest>=9 pytest-xdist hypothesis jaxtyping pyyaml jsonschema'

install() { # DIRECTORY PROJECT [EXTRA]: the project with the oldest dependencies
    directory=$1
    echo "== setting up $directory =="
    "$python" -m venv --clear "$directory"
    "$python" scripts/lowest_versions.py ${3:-} >"$directory/lowest.txt"
    "$directory/bin/python" -m pip --disable-pip-version-check install --quiet \
        --constraint "$directory/lowest.txt" --editable "$2"
}

run_tests() { # DIRECTORY TEST...: with a pytest that reads our settings
    directory=$1
    shift
    # shellcheck disable=SC2086 # several words
    "$directory/bin/python" -m pip --disable-pip-version-check install --quiet $tools
    "$directory/bin/python" -m pytest -q -n 2 "$@"
}

install .venv/minimal-linter .
# what the tests share needs JAX
run_tests .venv/minimal-linter --noconftest tests/lint/test_command.py tests/lint/test_config.py

install .venv/minimal '.[all]' all
echo '== the first hour, on the oldest dependencies =='
PYTHON="$python" FIRST_HOUR_PACKAGES="$(.venv/minimal/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
    sh scripts/first_hour.sh
run_tests .venv/minimal tests/lint/test_server.py tests/lint/test_mcp.py tests/runtime/test_messages.py \
    tests/runtime/test_layouts.py tests/mypy_plugin/test_settings.py tests/pytest_plugin/test_options.py
