#!/bin/sh
# Print the path of a Python that can make the project's environment.
#
#   find_python.sh            the default one: $PYTHON, else the first >= 3.11 on the PATH or under pyenv
#   find_python.sh second X   another minor version than interpreter X, or nothing if there is none
#
# A candidate counts only if it runs and can make virtual environments: pyenv leaves shims that refuse to run, and
# some distributions ship Python without ensurepip.
set -u

describe() {
    "$1" -c 'import sys, venv, ensurepip; print("%d.%d" % sys.version_info[:2], sys.executable)' 2>/dev/null
}

usable() { # the interpreter's own path, if it is one of the versions $2...
    found=$(describe "$1") || return 1
    version=${found%% *}
    shift
    for wanted in "$@"; do
        if [ "$version" = "$wanted" ]; then
            echo "${found#* }"
            return 0
        fi
    done
    return 1
}

# Newest patch release first within a minor version.
pyenv_pythons() {
    for root in "${PYENV_ROOT:-}" "${HOME:-}/.pyenv"; do
        [ -n "$root" ] && [ -d "$root/versions" ] || continue
        ls -d "$root/versions/$1".*/bin/python 2>/dev/null | sort -rV
    done
}

search() { # the first interpreter of the versions given, in their order
    for version in "$@"; do
        for candidate in "python$version" $(pyenv_pythons "$version"); do
            usable "$candidate" "$version" && return 0
        done
    done
    return 1
}

if [ "${1:-}" = second ]; then
    if [ -n "${SECOND_PYTHON:-}" ]; then
        describe "$SECOND_PYTHON" | cut -d' ' -f2-
        exit 0
    fi
    default=$("$2" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    for version in 3.13 3.12 3.11; do
        [ "$version" = "$default" ] && continue
        search "$version" && exit 0
    done
    exit 0
fi

if [ -n "${PYTHON:-}" ]; then
    usable "$PYTHON" 3.11 3.12 3.13 3.14 && exit 0
    echo "shardtypes: PYTHON=$PYTHON is not a Python 3.11 or newer that can make virtual environments." >&2
    exit 1
fi
usable python3 3.11 3.12 3.13 3.14 && exit 0
search 3.11 3.12 3.13 3.14 && exit 0
echo "shardtypes: found no Python 3.11 or newer that can make virtual environments.
Looked for python3 and python3.11 to python3.14 on the PATH, and for the versions under ~/.pyenv.
Install one (on Debian or Ubuntu: the packages python3 and python3-venv) or name it: make PYTHON=/path/to/python ..." >&2
exit 1
