#!/usr/bin/env bash
# Make the virtual environment .venv with the given requirement in it. Usage: setup.sh REQUIREMENT MARKER
set -euo pipefail
requirement=$1 marker=$2 python=${PYTHON:-python3}
cd "$(dirname "$0")/.."

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "setup: Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3" >&2
    exit 2
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    # Debian keeps these two modules in a package of their own
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && apt-get install -qq -y --no-install-recommends python3-venv
    else
        echo "setup: this Python cannot make virtual environments; on Debian: sudo apt-get install python3-venv" >&2
        exit 2
    fi
fi
if [ ! -x .venv/bin/python ]; then
    echo "setup: making .venv"
    "$python" -m venv .venv
fi
echo "setup: installing $requirement"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable "$requirement"
touch "$marker"
