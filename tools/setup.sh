#!/usr/bin/env bash
# Make a virtual environment from a lock (hashes required) and install this package into it, editable.
# usage: tools/setup.sh [VENV [LOCK]]; requirements-dev.txt has the developer tools, requirements.txt only what the package needs.
set -euo pipefail

cd "$(dirname "$0")/.."
venv="${1:-.venv}"
lock="${2:-requirements-dev.txt}"

pick_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11; do
        [ -n "$candidate" ] || continue
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            echo "$candidate"
            return
        fi
    done
    echo "stepwell needs Python 3.11 or newer with the venv module; set PYTHON to one" >&2
    return 1
}

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python="$(pick_python)"
    echo "making $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
fi

pip() { "$venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }

echo "installing $lock"
pip install --quiet --require-hashes --requirement "$lock"
pip install --quiet --no-deps --no-build-isolation --editable .
if [ "$lock" = requirements-dev.txt ]; then
    tools/chromium.sh
fi
echo "$venv is ready"
