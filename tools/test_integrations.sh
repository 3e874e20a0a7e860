#!/usr/bin/env bash
# Tests with other people's packages, in the environment .venv-integrations. torch is pinned to the version whose CPU
# build the tests of local models use.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/environment.sh

install .venv-integrations --constraint constraints-integrations.txt \
    --requirement tests/integrations/requirements.txt --editable '.[video,glance,web]' torch==2.13.0 torchcodec==0.13.0
.venv-integrations/bin/python -m pytest tests/integrations "$@"
