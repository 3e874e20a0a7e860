#!/usr/bin/env bash
# Build the wheel, install it without extras, and run every command: each works, or says in one sentence what to install.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work" .
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt "$work"/*.whl
"$work/venv/bin/python" -I tools/smoke.py "$work/venv/bin/trace-ves" docs/examples/audit
